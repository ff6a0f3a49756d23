"""Columns by their values: dictionaries, and the type of their codes, differ between blocks."""

from __future__ import annotations

from fairmix.system.arrow import pa


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of what a column holds, of categories that of their values.

    Examples
    --------
    >>> value_type(pa.dictionary(pa.int8(), pa.string())).equals(pa.string())
    True
    """
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def by_value(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without a dictionary."""
    kind = value_type(column.type)
    return column if kind == column.type else column.cast(kind)


def table_by_value(table: pa.Table) -> pa.Table:
    """The table without dictionaries, so that blocks of it can be put together.

    Examples
    --------
    >>> table = pa.table({"town": pa.array(["Rome", "Oslo"]).dictionary_encode()})
    >>> table_by_value(table).schema.types
    [DataType(string)]
    """
    return pa.table([by_value(column) for column in table.columns], names=table.column_names)


def without_views(schema: pa.Schema) -> pa.Schema:
    """The schema with texts that are stored in one piece: few functions of Arrow take views.

    Examples
    --------
    >>> without_views(pa.schema([("town", pa.string_view())])).types
    [DataType(large_string)]
    """
    return pa.schema([field.with_type(_without_view(field.type)) for field in schema])


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_view(kind.value_type), kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
