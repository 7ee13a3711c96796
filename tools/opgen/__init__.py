"""The op table's reader and the writers of what is generated from it (see include/mlxc/ops.toml)."""
