"""Replacements of operators that cannot be imported: other operators, and settings of the program that exports."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from ocannl_onnx.graph import domain_of, qualified_name
from ocannl_onnx.registry import GROUP, operator_table

ML = "ai.onnx.ml"
REPLACEMENTS: Mapping[tuple[str, str], str] = {
    ("", "ImageDecoder"): "decode pictures before the model, and make the pixels its input",
    ("", "RegexFullMatch"): "match texts before the model, and make the results its input",
    ("", "StringConcat"): "join texts before the model",
    (ML, "CastMap"): "arrays in place of maps: the values as an input",
    (ML, "CategoryMapper"): "LabelEncoder",
    (ML, "DictVectorizer"): "arrays in place of maps: the values as an input",
    (ML, "FeatureVectorizer"): "Concat",
    (ML, "Imputer"): "IsNaN and Where",
    (ML, "LinearClassifier"): "MatMul, Add, ArgMax, and Softmax or Sigmoid",
    (ML, "OneHotEncoder"): "OneHot",
    (ML, "SVMClassifier"): "MatMul, Mul, Exp and ArgMax",
    (ML, "SVMRegressor"): "MatMul, Mul, Exp and Add",
    (ML, "TreeEnsembleClassifier"): "TreeEnsemble and ArgMax",
    (ML, "TreeEnsembleRegressor"): "TreeEnsemble",
    (ML, "ZipMap"): 'export with the option `zipmap` off, in skl2onnx `options={"zipmap": False}`',
}
"""What nodes can be replaced by, for operators of ONNX."""

DOMAINS: Mapping[str, str] = {
    "com.microsoft": "the model before ONNX Runtime optimized it (ORT_ENABLE_BASIC)",
    "com.microsoft.nchwc": "the model before ONNX Runtime optimized it (ORT_ENABLE_BASIC)",
    "org.pytorch.aten": "export with torch.onnx.export(..., dynamo=True)",
    "ai.onnx.contrib": "preprocess before the model (onnxruntime-extensions)",
    "mmdeploy": "export without mmdeploy's own operators",
}
"""What to do about operators that belong to a runtime or a program that exports."""

MIN_SIMILARITY = 0.75  # of names, as difflib measures it


def replacement(operator: str, domain: str) -> str:
    """The replacement of an operator that is not supported: operators that are, or a way to add it."""
    domain = domain_of(domain)
    if (domain, operator) in REPLACEMENTS:
        return REPLACEMENTS[domain, operator]
    supported = {(row.domain, row.operator) for row in operator_table()}
    homonyms = [key for key in sorted(supported) if key[1] == operator]
    if homonyms:
        return f"{qualified_name(*homonyms[0])}, if it computes the same"
    if domain in DOMAINS:
        return DOMAINS[domain]
    names = {name.lower(): (space, name) for space, name in sorted(supported, reverse=True)}
    similar = get_close_matches(operator.lower(), names, n=1, cutoff=MIN_SIMILARITY)
    if similar:
        return f"{qualified_name(*names[similar[0]])}, which has a similar name"
    return f"a function in the model, or a package with the entry point `{GROUP}`"
