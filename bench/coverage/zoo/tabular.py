"""Tables of numbers and words: what scikit-learn's converters write."""
import numpy as np
from onnx import TensorProto, helper

from .registry import architecture

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "tabular", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=8)


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


def rows(count, width=4):
    return lambda rng: {"x": rng.standard_normal((count, width)).astype(np.float32)}


def forest(rng, trees, features, classes):
    """A forest of full trees of depth 2 as TreeEnsembleClassifier's lists."""
    lists = {k: [] for k in ("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
                             "nodes_truenodeids", "nodes_falsenodeids", "class_treeids", "class_nodeids", "class_ids",
                             "class_weights")}
    for tree in range(trees):
        for node in range(7):
            leaf = node >= 3
            lists["nodes_treeids"].append(tree)
            lists["nodes_nodeids"].append(node)
            lists["nodes_featureids"].append(0 if leaf else int(rng.integers(features)))
            lists["nodes_values"].append(0.0 if leaf else float(rng.standard_normal()))
            lists["nodes_modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            lists["nodes_truenodeids"].append(0 if leaf else 2 * node + 1)
            lists["nodes_falsenodeids"].append(0 if leaf else 2 * node + 2)
            for c in range(classes if leaf else 0):
                lists["class_treeids"].append(tree)
                lists["class_nodeids"].append(node)
                lists["class_ids"].append(c)
                lists["class_weights"].append(float(rng.random()) / trees)
    return lists


@architecture("random_forest", rows(1), rows(7), what="scaled, then a forest of trees")
def random_forest(name):
    rng = np.random.default_rng(11)
    nodes = [ml("Scaler", ["x"], ["scaled"], offset=[0.1, -0.2, 0.0, 0.3], scale=[1.0, 2.0, 0.5, 1.5]),
             ml("TreeEnsembleClassifier", ["scaled"], ["label", "probabilities"], classlabels_int64s=[0, 1, 2],
                post_transform="NONE", **forest(rng, 6, 4, 3))]
    return model(nodes, [info("x", TensorProto.FLOAT, ["n", 4])],
                 [info("label", TensorProto.INT64, ["n"]), info("probabilities", TensorProto.FLOAT, ["n", 3])])


@architecture("svc_rbf", rows(2), rows(5), what="a support vector machine with radial kernels")
def svc(name):
    rng = np.random.default_rng(12)
    count = 6
    nodes = [ml("SVMClassifier", ["x"], ["label", "scores"], classlabels_ints=[0, 1], vectors_per_class=[3, 3],
                kernel_type="RBF", kernel_params=[0.3, 0.0, 3.0], rho=[0.05], post_transform="NONE",
                support_vectors=[float(v) for v in rng.standard_normal(count * 4)],
                coefficients=[float(v) for v in rng.standard_normal(count)])]
    return model(nodes, [info("x", TensorProto.FLOAT, ["n", 4])],
                 [info("label", TensorProto.INT64, ["n"]), info("scores", TensorProto.FLOAT, ["n", 2])])


WORDS = np.array(["red", "green", "blue", "none"])


def words(count):
    return lambda rng: {"colour": WORDS[rng.integers(0, 4, (count, 1))].astype(object),
                        "x": rng.standard_normal((count, 2)).astype(np.float32)}


@architecture("words_logistic", words(1), words(6), what="words encoded one by one, beside numbers, in a logistic regression")
def words_logistic(name):
    rng = np.random.default_rng(13)
    nodes = [ml("OneHotEncoder", ["colour"], ["hot"], cats_strings=["red", "green", "blue"], zeros=1),
             helper.make_node("Reshape", ["hot", "flat"], ["hot_rows"]),
             helper.make_node("Concat", ["hot_rows", "x"], ["features"], axis=1),
             ml("LinearClassifier", ["features"], ["label", "scores"], classlabels_strings=["no", "yes"],
                coefficients=[float(v) for v in rng.standard_normal(10)], intercepts=[0.1, -0.1], post_transform="SOFTMAX"),
             ml("Normalizer", ["scores"], ["probabilities"], norm="L1")]
    flat = helper.make_tensor("flat", TensorProto.INT64, [2], [-1, 3])
    return model(nodes, [info("colour", TensorProto.STRING, ["n", 1]), info("x", TensorProto.FLOAT, ["n", 2])],
                 [info("label", TensorProto.STRING, ["n"]), info("probabilities", TensorProto.FLOAT, ["n", 2])], [flat])
