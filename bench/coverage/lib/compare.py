"""Two runtimes' numbers for one value, beside each other."""
import dataclasses

import numpy as np


@dataclasses.dataclass
class Difference:
    count: int
    total: int
    index: tuple
    want: object
    got: object
    excess: float  # |want - got| over what is allowed
    note: str = ""

    def __str__(self):
        if self.note:
            return self.note
        return (f"{self.count} of {self.total} differ, worst at {list(self.index)}: expected {self.want!s}, "
                f"got {self.got!s} ({self.excess:.3g} times what is allowed)")


def typical_size(array):
    """A size that most elements stay below; what masks scores out (-3e38) and infinities do not count."""
    sizes = np.abs(array[np.isfinite(array)]).astype(np.float64)
    if sizes.size == 0:
        return 0.0
    sizes = sizes[sizes <= 1e6 * max(float(np.median(sizes)), 1e-30)] if np.median(sizes) > 0 else sizes[sizes < 1e6]
    return float(np.sqrt(np.mean(np.square(sizes)))) if sizes.size else 0.0


# By dtype: rtol, and atol as a part of the typical size.  Halves are rounded after every node by one side, not by the other.
LOOSE = {"float64": (1e-6, 1e-8), "float32": (1e-3, 1e-4), "float16": (2e-2, 1e-2)}


def difference(want, got, rtol=None, atol=None, int_atol=0):
    """None when they agree, else where they differ most.  Without tolerances: relative to the value's own size."""
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(want) != len(got):
            return Difference(1, 1, (), want, got, float("inf"), "another number of elements in a sequence")
        worst = [difference(w, g, rtol, atol, int_atol) for w, g in zip(want, got)]
        return max((w for w in worst if w), key=lambda d: d.excess, default=None)
    if want is None or got is None:
        same = want is None and got is None
        return None if same else Difference(1, 1, (), want, got, float("inf"), "one side has nothing here")
    want, got = np.asarray(want), np.asarray(got)
    if want.dtype != got.dtype and not (want.dtype.kind in "OUS" and got.dtype.kind in "OUS"):
        return Difference(1, 1, (), want, got, float("inf"), f"dtype {want.dtype} expected, got {got.dtype}")
    if want.shape != got.shape:
        return Difference(1, 1, (), want, got, float("inf"), f"shape {list(want.shape)} expected, got {list(got.shape)}")
    if want.size == 0:
        return None
    if want.dtype.kind in "OUSV":
        wrong = want.astype(str) != got.astype(str)
        off = wrong.astype(np.float64)
        allowed = np.full(want.shape, 0.5)
    elif want.dtype.kind in "fc":
        loose = LOOSE.get(str(want.dtype), LOOSE["float32"])
        rtol = loose[0] if rtol is None else rtol
        atol = loose[1] * typical_size(want) if atol is None else atol
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = want.astype(wide), got.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.asarray(np.abs(a - b)).reshape(want.shape).copy()
            allowed = np.asarray(atol + rtol * np.abs(a)).reshape(want.shape).copy()
        off[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
        off[np.isnan(off)] = np.inf
        allowed[~np.isfinite(allowed)] = 0
    else:
        off = np.abs(want.astype(np.float64) - got.astype(np.float64))
        allowed = np.full(want.shape, float(int_atol))
    wrong = off > allowed
    if not wrong.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(wrong, off / allowed, 0)
    at = np.unravel_index(int(np.argmax(np.where(np.isinf(excess), off + 1e300, excess))), want.shape)
    return Difference(int(wrong.sum()), want.size, tuple(int(i) for i in at), want[at], got[at], float(excess[at]))
