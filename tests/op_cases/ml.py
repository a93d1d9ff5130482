"""ai.onnx.ml operators of scikit-learn's pipelines."""
import numpy as np

F = np.float32
ML = {"domain": "ai.onnx.ml"}


def add_cases(add):
    eye = np.eye(3, dtype=F)
    names = np.array([["b", "z"], ["a", "c"]])
    add.add("OneHotEncoder_strings", "OneHotEncoder", [names], {"cats_strings": ["a", "b", "c"]},
            expected=np.stack([np.stack([eye[1], 0 * eye[0]]), np.stack([eye[0], eye[2]])]), **ML)
    for dtype in (np.int64, np.int32, np.float32, np.float64):
        x = np.array([2, 9, 1, 3]).astype(dtype)
        label = np.dtype(dtype).name
        add.add(f"OneHotEncoder_{label}", "OneHotEncoder", [x], {"cats_int64s": [1, 2, 3]},
                expected=np.stack([eye[1], 0 * eye[0], eye[0], eye[2]]), **ML)
        add.add(f"OneHotEncoder_{label}_all_listed", "OneHotEncoder", [x[2:]], {"cats_int64s": [1, 2, 3], "zeros": 0},
                expected=eye[[0, 2]], **ML)
        rows = np.array([[1, -2, 3], [0, 5, -1]]).astype(dtype)
        add.add(f"Scaler_{label}", "Scaler", [rows], {"offset": [1.0, 0.0, -1.0], "scale": [2.0, 0.5, 1.0]},
                expected=((rows - np.array([1, 0, -1])) * np.array([2, 0.5, 1])).astype(F), **ML)
        for norm, y in (("MAX", rows / np.abs(rows).max(1, keepdims=True)), ("L1", rows / np.abs(rows).sum(1, keepdims=True)),
                        ("L2", rows / np.sqrt((rows.astype(F) ** 2).sum(1, keepdims=True)))):
            if norm != "MAX":  # ONNX Runtime takes the greatest, not the greatest magnitude
                add.add(f"Normalizer_{norm}_{label}", "Normalizer", [rows], {"norm": norm}, expected=y.astype(F), **ML)
        add.add(f"Binarizer_{label}", "Binarizer", [rows], {"threshold": 0.5}, expected=(rows > 0.5).astype(dtype), **ML)
        add.add(f"LinearRegressor_{label}", "LinearRegressor", [rows], {"coefficients": [1.0, 2.0, -1.0], "intercepts": [0.5]},
                expected=(rows @ np.array([[1], [2], [-1]]) + 0.5).astype(F), **ML)
        add.add(f"ArrayFeatureExtractor_{label}", "ArrayFeatureExtractor", [rows, np.array([2, 0], np.int64)],
                expected=rows[:, [2, 0]], **ML)
    add.add("LabelEncoder_strings", "LabelEncoder", [names], {"keys_strings": ["a", "b"], "values_int64s": [5, 7],
                                                              "default_int64": -3},
            expected=np.array([[7, -3], [5, -3]], np.int64), **ML)
    tree = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
            "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
            "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [2.0, -1.0], "n_targets": 1}
    for dtype in (np.float32, np.float64, np.int64):
        x = np.array([[0, 0], [0, 1], [1, 2]]).astype(dtype)
        add.add(f"TreeEnsembleRegressor_{np.dtype(dtype).name}", "TreeEnsembleRegressor", [x], tree,
                expected=np.array([[2], [-1], [-1]], F), **ML)
