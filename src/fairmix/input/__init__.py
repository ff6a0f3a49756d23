"""The way in: columns, groups and roles of any table that users have."""
