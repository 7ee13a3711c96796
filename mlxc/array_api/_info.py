"""What `mlxc.__array_namespace_info__()` returns: the inspection object of the Python array API standard."""

from __future__ import annotations

import mlxc as mx

_KINDS = {
    "bool": ["bool"],
    "signed integer": ["int8", "int16", "int32", "int64"],
    "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
    "real floating": ["float32", "float64"],
    "complex floating": ["complex64", "complex128"],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """Facts on this namespace, in the form that the standard gives them."""

    def capabilities(self) -> dict:
        """What the namespace can do beyond the required minimum."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> mx.Device:
        """The device used where none is named."""
        return mx.default_device()

    def devices(self) -> tuple[mx.Device, ...]:
        """Every device there is."""
        return tuple(mx.Device(kind, i) for kind in (mx.cpu, mx.gpu) for i in range(mx.device_count(kind)))

    def default_dtypes(self, *, device: mx.Device | None = None) -> dict[str, mx.Dtype]:
        """The dtypes that creation functions use where none is named."""
        return {
            "real floating": mx.float32,
            "complex floating": mx.complex64,
            "integral": mx.int32,
            "indexing": mx.int64,
        }

    def dtypes(
        self, *, device: mx.Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, mx.Dtype]:
        """The standard's dtypes of a kind, a tuple of kinds, or all."""
        if kind is None:
            kind = ("bool", "numeric")
        kinds = (kind,) if isinstance(kind, str) else kind
        for name in kinds:
            if name not in _KINDS:
                raise ValueError(f"dtypes: kind is one of {', '.join(_KINDS)}, not {name!r}")
        return {name: getattr(mx, name) for group in kinds for name in _KINDS[group]}
