"""Gathers, scatters, selections; operators whose number of results depends on the data; strings."""
import numpy as np

F = np.float32


def i64(*values):
    return np.array(values, np.int64)


def gathers(add):
    x = np.arange(24).reshape(2, 3, 4).astype(F)
    for axis in (-1, 0, 1):
        for label, indices in {"0d": np.array(1, np.int64), "one": i64(1), "negative": i64(-1, 0), "matrix": i64(0, 1, 1, 0).
                               reshape(2, 2), "none": np.zeros((0,), np.int64), "i32": np.array([1, 0], np.int32)}.items():
            add.add(f"Gather_{axis}_{label}", "Gather", [x, indices], {"axis": axis}, expected=np.take(x, indices, axis))
    for axis in (0, 1, 2):
        indices = add.rng(f"elements{axis}").integers(-x.shape[axis], x.shape[axis], (2, 2, 3))
        add.add(f"GatherElements_{axis}", "GatherElements", [x, indices], {"axis": axis},
                expected=np.take_along_axis(x[:2, :2 if axis != 1 else 3, :3 if axis != 2 else 4], indices, axis)
                if axis == 0 else None)
    for batch, indices in ((0, [[0, 1], [1, 2]]), (0, [[[1]], [[0]]]), (1, [[[1], [2]], [[0], [0]]])):
        indices = np.array(indices, np.int64)
        add.add(f"GatherND_{batch}_{indices.ndim}", "GatherND", [x, indices], {"batch_dims": batch})
    for reduction in ("none", "add", "mul", "max", "min"):
        for dtype in (np.float32, np.int32, np.int64):
            data = np.arange(12).reshape(3, 4).astype(dtype)
            name = f"{reduction}_{np.dtype(dtype).name}"
            add.add("ScatterElements_" + name, "ScatterElements",
                    [data, np.array([[1, -1, 0, 2]], np.int64), np.array([[5, 6, 7, 8]], dtype)],
                    {"axis": 0, "reduction": reduction}, version=18)
            add.add("ScatterND_" + name, "ScatterND", [data, np.array([[2], [0]], np.int64),
                                                       np.array([[5, 1, 7, 2], [1, 2, 3, 4]], dtype)],
                    {"reduction": reduction}, version=18)
    for axis, depth in ((-1, 3), (0, 4), (1, 2)):
        add.add(f"OneHot_{axis}_{depth}", "OneHot", [np.array([0, 2, -1], np.int64), i64(depth), np.array([-1, 2], F)],
                {"axis": axis})


def selections(add):
    x = np.array([[0, 1, 2], [0, 0, 3]])
    for dtype in (np.float32, np.int32, np.int64, np.bool_):
        add.add(f"NonZero_{np.dtype(dtype).name}", "NonZero", [x.astype(dtype)])
    for axis in (None, 0, 1):
        condition = np.array([False, True, True] if axis != 0 else [False, True])
        add.add(f"Compress_{axis}", "Compress", [x.astype(F), condition], {} if axis is None else {"axis": axis})
    for is_sorted in (0, 1):
        for axis in (None, 0, 1):
            y = np.array([[2, 1, 1], [2, 1, 1], [0, 3, 3]], F)
            add.add(f"Unique_{is_sorted}_{axis}", "Unique", [y], {"sorted": is_sorted} | ({} if axis is None else
                                                                                          {"axis": axis}), outputs=4, by="onnxruntime")
    strings = np.array(["b", "a", "c", "a"])
    add.add("Gather_strings", "Gather", [strings, i64(2, 0)], expected=np.array(["c", "b"]))
    add.add("Equal_strings", "Equal", [strings, np.array("a")], version=19, expected=strings == "a")
    add.add("StringConcat", "StringConcat", [strings, np.array(["x"])], version=20,
            expected=np.array(["bx", "ax", "cx", "ax"]))
    add.add("StringNormalizer", "StringNormalizer", [np.array(["Zoë", "THE", "b"])],
            {"case_change_action": "LOWER", "is_case_sensitive": 0, "stopwords": ["the"]}, expected=np.array(["zoë", "b"]))


def expressions(add):
    """RE2's syntax: what it takes, and what it refuses."""
    for name, pattern, texts in [
        ("plain", "[a-z]+\\d*", ["ab12", "a-b", "é"]),
        ("letters", "\\pL+\\s\\p{Greek}", ["Zoë α", "Zoë a", "z1 α"]),
        ("lazy_and_case", "(?i)a+?b{2,3}(?:c|d)*", ["AABBcdc", "abb", "ab", "abbbb"]),
        ("lines", "(?m)^a$\\n^b$", ["a\nb", "a b"]),
        ("dot_and_code_points", "h.llo\\x{20AC}?", ["héllo", "hello€", "h\nllo"]),
        ("nested", "(a+)+b", ["a" * 40 + "c", "aab"]),
        ("email", "(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", ["account@gmail.com", "account@hotmail.com"]),
    ]:
        add.add(f"RegexFullMatch_{name}", "RegexFullMatch", [np.array(texts).reshape(-1, 1)], {"pattern": pattern},
                version=20, by="onnxruntime")
    add.add("RegexFullMatch_empty", "RegexFullMatch", [np.empty([2, 0], "U1")], {"pattern": "a"}, version=20,
            expected=np.empty([2, 0], bool))
    for name, pattern in [("unclosed", "(a"), ("back_reference", "(a)\\1"), ("look_ahead", "a(?=b)"),
                          ("backwards_range", "[z-a]"), ("too_many", "a{1001}"), ("too_large", "((a{99}){99}){99}")]:
        add.refused(f"RegexFullMatch_{name}", "RegexFullMatch", [np.array(["a"])], {"pattern": pattern}, version=20,
                    must_mention=["RegexFullMatch", pattern])
    for name, attributes in [("words", {"tokenexp": "[a-zé]+"}), ("longest", {"tokenexp": "a|ab|abc"}),
                             ("separators", {"separators": [" +", ",|;"]})]:
        attributes = {"mark": 0, "mincharnum": 1, "pad_value": "#"} | attributes
        add.add(f"Tokenizer_{name}", "Tokenizer", [np.array(["abc, dé;f  abab", "", "x"])], attributes,
                domain="com.microsoft")


def add_cases(add):
    expressions(add)
    gathers(add)
    selections(add)
