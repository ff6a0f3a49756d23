"""Options that several commands share, and what they mean to an estimator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from fairmix.cli.screen import BOUND_MISSED, Screen, in_options
from fairmix.system.clean import clean

if TYPE_CHECKING:
    from fairmix import FairMixture
    from fairmix.cli.files import InputFiles
    from fairmix.criteria import Limit
    from fairmix.results.verdict import Verdict
    from fairmix.tables import Dialect

AUTO = "auto"
CHANCE = "chance"


def criteria() -> Collection[str]:
    """Names of the criteria."""
    from fairmix.criteria import CRITERIA

    return CRITERIA.keys()


def covariance_types() -> Collection[str]:
    """Names of the families of numeric columns."""
    from fairmix.mixture.families import FAMILIES

    return FAMILIES.keys()


def one_of(names: Callable[[], Collection[str]]) -> Callable[[typer.Context, str], str]:
    """A check that a value is in a register.

    It is read when a command runs: what is added later counts, and ``--help`` loads nothing.
    """

    def check(context: typer.Context, value: str) -> str:
        # Nothing is checked while a shell completes a line.
        if not context.resilient_parsing and value not in names():
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names()))}.")
        return value

    return check


def completions(names: Callable[[], Collection[str]]) -> Callable[[], list[str]]:
    """What a shell offers."""
    return lambda: list(names())


# Ranges are checked by the estimator: in the help they would take lines.
Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="CSV, Parquet, Feather: a file, folder or pattern."),
]
# Hidden, because few files need them and the help fits a screen of 40 lines. The page of commands
# lists them, and so do the notes on how a file was read.
Decimal = Annotated[Literal[".", ","] | None, typer.Option(hidden=True)]
Encoding = Annotated[str | None, typer.Option(hidden=True)]
MissingToken = Annotated[list[str] | None, typer.Option(hidden=True)]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.")]
Sensitive = Annotated[
    list[str],
    typer.Option("--sensitive", "-s", metavar="NAME", help="Column of groups; repeatable."),
]
Labels = Annotated[
    str,
    typer.Option("--labels", "-l", metavar="NAME", help="Column of cluster labels, or a file."),
]
Clusters = Annotated[
    str, typer.Option("--clusters", "-k", metavar="N|auto", help="Number of clusters.")
]
# None is told apart from the default, which gives way to another rule.
MaxGap = Annotated[
    float | None, typer.Option(metavar="GAP", help="Largest gap allowed; 0.01 without a rule.")
]
MinRatio = Annotated[
    float | None, typer.Option(metavar="RATIO", help="Or smallest ratio; 0.8 is four fifths.")
]
MinBalance = Annotated[
    float | None, typer.Option(metavar="BALANCE", help="Or smallest Balance, as papers define it.")
]
Margin = Annotated[
    str,
    typer.Option(
        metavar="N|chance", show_default=False, help="How much stricter, for unseen rows."
    ),
]
Numeric = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Treat as numbers; repeatable.")
]
Categorical = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Treat as categories; repeatable.")
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help=("Column to leave out; repeatable."))
]
# A mixture can do without some values of a row; other methods and groups cannot.
Missing = Annotated[
    Literal["integrate", "drop-rows", "error"],
    typer.Option(metavar="HOW", help="Or drop-rows, error."),
]
Incomplete = Annotated[
    Literal["error", "drop-rows"],
    typer.Option("--missing", metavar="HOW", help="Missing values; or drop-rows."),
]
MissingGroups = Annotated[
    Literal["error", "drop", "group"],
    typer.Option(metavar="HOW", help="Groups; or drop, group."),
]
# None is told apart from the default: only who asks for it accepts that some groups are not judged.
MinGroupSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="Smallest group judged; 30 if left out."),
]
Unknown = Annotated[
    Literal["error", "ignore"] | None,
    typer.Option(metavar="HOW", help="Categories not in the fit: error or ignore."),
]
Assignment = Annotated[
    Literal["blind", "aware"] | None,
    typer.Option(help="Aware: labels depend on the group too."),
]
# Several columns of groups: their combinations, or each by itself.
Attributes = Annotated[
    Literal["intersect", "each"],
    typer.Option(metavar="HOW", show_default=False, help="Each: several columns by themselves."),
]
# A short form that needs no line of its own: the help fits a screen.
Blind = Annotated[bool, typer.Option("--blind", hidden=True)]
Ties = Annotated[
    Literal["together", "split"],
    typer.Option(metavar="HOW", help="Or split equal rows."),
]
# A name of the register of solvers. The estimator checks it: to read the register takes NumPy,
# which no help needs, so the help names those that the package brings.
Solver = Annotated[
    str,
    typer.Option(metavar="<dual|em|gd>", show_default=False, help="em and gd: the paper's."),
]
GapOf = Annotated[
    Literal["labels", "probabilities"],
    typer.Option(metavar="WHAT", help="Or probabilities."),
]
Criterion = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        show_default=False,
        help="gap, additive_gap or worst_pair_gap.",
        callback=one_of(criteria),
        autocompletion=completions(criteria),
    ),
]
CovarianceType = Annotated[
    str,
    typer.Option(
        "--covariance-type",
        metavar="NAME",
        help="Or diag, full, ...",
        callback=one_of(covariance_types),
        autocompletion=completions(covariance_types),
    ),
]
NoStandardize = Annotated[
    bool, typer.Option("--no-standardize", help="Leave numeric columns as they are.")
]
Starts = Annotated[int, typer.Option("--n-init", metavar="N", help="Starts of the fit.")]
Subsample = Annotated[
    float | None, typer.Option(metavar="ROWS", help="Rows to learn from, or their share.")
]
BatchSize = Annotated[
    float | None, typer.Option(metavar="ROWS", help="Rows per mini-batch, or their share.")
]
Append = Annotated[bool, typer.Option("--append", help="Labels beside all columns of the table.")]
Probabilities = Annotated[
    bool, typer.Option("--probabilities", help="Of each cluster, beside the labels.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
Jobs = Annotated[
    int, typer.Option(metavar="N", show_default=False, help="Threads; one per core if left out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if the bound is not met.")]


@dataclass(frozen=True)
class TextOptions:
    """How text files are written, where they do not say it themselves."""

    decimal: Decimal = None
    encoding: Encoding = None
    missing_token: MissingToken = None

    def dialect(self) -> Dialect:
        """What is known of text files."""
        from fairmix.tables import Dialect

        try:
            return Dialect.of(self.decimal, self.encoding, self.missing_token or ())
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of a table are, and what to do where values are missing."""

    numeric: Numeric = None
    categorical: Categorical = None
    drop: Drop = None
    missing: Missing = "integrate"
    missing_groups: MissingGroups = "error"

    def open(
        self, path: str, sensitive: list[str], screen: Screen, *, seed: int, n_jobs: int, **how: Any
    ) -> InputFiles:
        """The files, and tell the user what their columns are."""
        from fairmix.cli.opening import Choice, open_to_fit
        from fairmix.cli.texts import columns_text, gaps_text

        choice = Choice.of(
            sensitive=sensitive,
            numeric=self.numeric,
            categorical=self.categorical,
            drop=self.drop,
        )
        files = open_to_fit(
            path,
            choice,
            missing=self.missing,
            missing_groups=self.missing_groups,
            seed=seed,
            n_jobs=n_jobs,
            verbose=bool(screen.bars),
            **how,
        )
        screen.say(columns_text(files))
        screen.note(gaps_text(files))
        return files


@dataclass(frozen=True)
class RuleOptions:
    """What is asked of the groups: one of three rules, and how much stricter the fit is."""

    max_gap: MaxGap = None
    min_ratio: MinRatio = None
    min_balance: MinBalance = None
    margin: Margin = "0"

    def settings(self) -> dict[str, Any]:
        """Parameters of an estimator, which checks their ranges."""
        check_one_rule(max_gap=self.max_gap, min_ratio=self.min_ratio, min_balance=self.min_balance)
        return {
            "max_gap": AUTO if self.max_gap is None else self.max_gap,
            "min_ratio": self.min_ratio,
            "min_balance": self.min_balance,
            "margin": read_margin(self.margin),
        }


@dataclass(frozen=True)
class ModelOptions:
    """What the model is."""

    assignment: Assignment = None
    blind: Blind = False
    ties: Ties = "together"
    gap_of: GapOf = "labels"
    criterion: Criterion = "gap"
    min_group_size: MinGroupSize = None
    attributes: Attributes = "intersect"
    solver: Solver = "dual"
    covariance_type: CovarianceType = "tied-spherical"
    no_standardize: NoStandardize = False
    n_init: Starts = 1

    def estimator(
        self, n_components: int | None, *, seed: int, n_jobs: int, **settings: Any
    ) -> FairMixture:
        """The estimator, its settings checked before any data are read."""
        return make_estimator(
            n_components,
            gap_of=self.gap_of,
            assignment=read_assignment(self.assignment, self.blind),
            ties=self.ties,
            solver=self.solver,
            criterion=self.criterion,
            min_group_size=read_min_group_size(self.min_group_size),
            attributes=self.attributes,
            covariance_type=self.covariance_type,
            standardize=not self.no_standardize,
            n_init=self.n_init,
            random_state=seed,
            n_jobs=n_jobs,
            **settings,
        )


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one parameter for each field of the groups of options that it takes.

    Typer reads options from a signature and knows no groups, which would have every command repeat
    all of them.
    """
    # Annotations are text in these modules, and the options are in what they evaluate to.
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in signature(command).parameters.items():
        group = hints.get(name, parameter.annotation)
        if not is_dataclass(group):
            # By keyword, as run takes them below.
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=group))
            continue
        groups[name] = group
        kinds = get_type_hints(group, include_extras=True)
        parameters += [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=kinds[field.name],
            )
            for field in fields(group)
        ]

    def run(**given: Any) -> None:
        for name, group in groups.items():
            chosen = {field.name: given.pop(field.name) for field in fields(group)}
            given[name] = group(**chosen)
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    # Typer reads the signature and the annotations, so both must tell the expanded options.
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def read_clusters(given: str) -> int | None:
    """A number of clusters; None for ``auto``."""
    if given == AUTO:
        return None
    if not given.isdecimal() or int(given) < 1:
        said = clean(given)
        raise typer.BadParameter(f"--clusters {said}: give a number of at least 1, or auto.")
    return int(given)


def check_one_rule(**rules: Any) -> None:
    """Refuse two rules at once, by the names of their options."""
    # A gap of zero is a rule, too; an option that may be repeated is an empty list.
    given = {name: value for name, value in rules.items() if value not in (None, [])}
    if len(given) > 1:
        said = " and ".join(option_of(name) for name in given)
        raise typer.BadParameter(f"{said}: these are different rules. Give one of them.")


def option_of(parameter: str) -> str:
    """The option of a parameter."""
    return f"--{parameter.replace('_', '-')}"


def read_margin(given: str) -> float | str:
    """A margin: a number, or what sampling explains."""
    if given == CHANCE:
        return given
    try:
        return float(given)
    except ValueError:
        said = clean(given)
        raise typer.BadParameter(f"--margin {said}: give a number, or chance.") from None


def read_limit(
    max_gap: float | None, min_ratio: float | None, min_balance: float | None, criterion: str
) -> Limit | None:
    """What clusters are judged by; None for nothing."""
    from fairmix.criteria import MaxGap, MinBalance, MinRatio

    check_one_rule(max_gap=max_gap, min_ratio=min_ratio, min_balance=min_balance)
    if max_gap is not None:
        if max_gap < 0:
            raise typer.BadParameter(f"--max-gap {max_gap:g}: give a number of at least 0.")
        return MaxGap(max_gap, criterion)
    for limit, value in ((MinRatio, min_ratio), (MinBalance, min_balance)):
        if value is None:
            continue
        # Zero would be a check that cannot fail.
        if not 0 < value <= 1:
            raise typer.BadParameter(
                f"{option_of(limit.parameter)} {value:g}: give a number above 0, at most 1."
            )
        return limit(value)
    return None


def read_assignment(assignment: str | None, blind: bool) -> str:
    """The assignment, of which ``--blind`` is another name."""
    if blind and assignment == "aware":
        raise typer.BadParameter("--blind and --assignment aware exclude each other. Choose one.")
    return assignment or "blind"


def read_unknown(unknown: str | None, hold_out: float) -> str:
    """What to do with new categories: a rare one may be in rows that are held out only."""
    # An error would come after the whole fit, when the held-out rows get their labels.
    return unknown or ("ignore" if hold_out else "error")


def read_min_group_size(given: int | None) -> int:
    """Rows that a group needs to be judged."""
    from fairmix.results.verdict import MIN_GROUP_SIZE

    if given is not None and given < 1:
        raise typer.BadParameter(f"--min-group-size {given}: give a number of at least 1.")
    return MIN_GROUP_SIZE if given is None else given


def be_strict(screen: Screen, verdict: Verdict, min_group_size: int | None) -> None:
    """End a command under ``--strict``, unless the verdict is good enough.

    That some groups are not judged is for the user to accept, by ``--min-group-size``.
    """
    from fairmix.results.verdict import MET, MET_FOR_JUDGED, NO_BOUND

    # Who sets no bound cannot miss it; audit asks for one itself.
    if verdict.word in (MET, NO_BOUND):
        return
    if verdict.word == MET_FOR_JUDGED:
        if min_group_size is not None:
            return
        screen.note("--strict: some groups are not judged. To accept that, give --min-group-size.")
    raise typer.Exit(BOUND_MISSED)


def read_rows(given: float | None) -> float | None:
    """A number of rows, or a share of all below 1."""
    # The estimator tells rows from shares by type, and an option is always read as a float.
    return int(given) if given is not None and given >= 1 and given.is_integer() else given


def make_estimator(n_components: int | None, **settings: Any) -> FairMixture:
    """The estimator, its settings checked before any data are read."""
    from fairmix import FairMixture
    from fairmix.estimator.validation import check_parameters

    for name in ("subsample", "batch_size"):
        settings[name] = read_rows(settings.get(name))
    # With auto the number is chosen later; until then any valid one serves for the check.
    model = FairMixture(n_components or FairMixture().n_components, **settings)
    try:
        check_parameters(model)
    except ValueError as error:
        raise typer.BadParameter(in_options(str(error))) from error
    return model


def display_path(path: Path) -> str:
    """A folder or a file as the user wrote it."""
    return f"{path}/" if path.is_dir() else str(path)
