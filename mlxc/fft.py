"""Fourier transforms: mlxc.fft, as mlx.core.fft and the array API standard's extension. They are in _fft and _stft."""

from ._fft import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from ._stft import istft, stft

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "istft", "rfft", "rfft2", "rfftfreq", "rfftn", "stft"]  # fmt: skip
