"""The page on SameDiff's operations: complete, with spellings that work and reasons for the rest."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc

PAGE = Path(__file__).resolve().parent.parent / "docs" / "samediff-operations.md"

# The operations of each namespace of SameDiff, from its reference.
NAMESPACES = {
    "Base": """all any argmax argmin batchMmul castTo concat cumprod cumsum dot dynamicPartition dynamicStitch eq
        expandDims fill gather gatherNd gt gte identity invertPermutation isNumericTensor linspace lt lte matchCondition
        matchConditionCount max mean merge min mmul neq norm1 norm2 normmax oneHot onesLike permute prod range rank
        replaceWhere reshape reverse reverseSequence scalarFloorMod scalarMax scalarMin scalarSet scatterAdd scatterDiv
        scatterMax scatterMin scatterMul scatterSub scatterUpdate segmentMax segmentMean segmentMin segmentProd
        segmentSum sequenceMask shape size sizeAt slice squaredNorm squeeze stack standardDeviation stridedSlice sum
        switchOp tensorMmul tile transpose unsortedSegmentMax unsortedSegmentMean unsortedSegmentMin
        unsortedSegmentProd unsortedSegmentSqrtN unsortedSegmentSum unstack variance zerosLike""",
    "Bitwise": """and bitRotl bitRotr bitShift bitShiftRight bitsHammingDistance leftShift leftShiftCyclic or rightShift
        rightShiftCyclic xor""",
    "CNN": """avgPooling2d avgPooling3d batchToSpace col2Im conv1d conv2d conv3d deconv2d deconv3d depthToSpace
        depthWiseConv2d dilation2D extractImagePatches im2Col localResponseNormalization maxPoolWithArgmax maxPooling2d
        maxPooling3d separableConv2d spaceToBatch spaceToDepth upsampling2d upsampling3d""",
    "Image": """CropAndResize adjustContrast adjustHue adjustSaturation extractImagePatches hsvToRgb imageResize
        nonMaxSuppression randomCrop rgbToHsv rgbToYiq rgbToYuv yiqToRgb yuvToRgb""",
    "Linalg": """Cholesky Lstsq Lu Matmul MatrixBandPart Qr Solve TriangularSolve cross diag diag_part logdet mmul svd
        tri triu""",
    "Loss": """absoluteDifference cosineDistance hingeLoss huberLoss l2Loss logLoss logPoisson meanPairwiseSquaredError
        meanSquaredError sigmoidCrossEntropy softmaxCrossEntropy sparseSoftmaxCrossEntropy
        weightedCrossEntropyWithLogits""",
    "Math": """ClipByAvgNorm EmbeddingLookup MergeMaxIndex abs acos acosh add amax amean amin and asin asinh asum atan
        atan2 atanh bitShift bitShiftRight bitShiftRotl bitShiftRotr ceil clipByNorm clipByValue confusionMatrix cos
        cosh cosineDistance cosineSimilarity countNonZero countZero cross cube diag diagPart div entropy erf erfc
        euclideanDistance exp expm1 eye firstIndex floor floorDiv floorMod hammingDistance iamax iamin isFinite
        isInfinite isMax isNaN isNonDecreasing isStrictlyIncreasing jaccardDistance lastIndex listDiff log log1p
        logEntropy logSumExp manhattanDistance matrixDeterminant matrixInverse max mergeAdd mergeAvg mergeMax meshgrid
        min mod moments mul neg normalizeMoments or pow rationalTanh rdiv reciprocal rectifiedTanh round rsqrt rsub
        setDiag shannonEntropy sign sin sinh sqrt square squaredDifference standardize step sub tan tanh trace xor
        zeroFraction""",
    "NN": """CReLU batchNorm biasAdd dotProductAttention dropout elu gelu hardSigmoid hardTanh hardTanhDerivative
        layerNorm leakyRelu leakyReluDerivative linear logSigmoid logSoftmax multiHeadDotProductAttention pad
        preciseGelu prelu relu relu6 reluLayer selu sigmoid sigmoidDerivative softmax softmaxDerivative softplus
        softsign softsignDerivative swish tanh""",
    "Random": "bernoulli binomial exponential logNormal normal normalTruncated uniform",
    "RNN": "gru gruCell lstmCell lstmLayer lstmblock sru sruCell",
}
ROW = re.compile(r"^\| `(\w+)` \| (?:`(.+?)`)? ?\| (.*?) ?\|$", re.MULTILINE)

X, Y = np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, 2.0])
M, SIX, IDS = np.arange(6.0).reshape(2, 3), np.arange(6.0), np.array([2, 0, 1])
A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
SORTED = np.argsort(IDS)
EXPECTED = {
    "Base.argmax": 2, "Base.cumsum": X.cumsum(), "Base.concat": np.append(X, Y), "Base.expandDims": X[:, None],
    "Base.dynamicStitch": X[SORTED], "Base.gatherNd": M[[0, 1], [1, 2]], "Base.invertPermutation": SORTED,
    "Base.linspace": np.linspace(0, 1, 5), "Base.matchConditionCount": 1, "Base.norm1": 6, "Base.normmax": 3,
    "Base.permute": M.T, "Base.reshape": SIX.reshape(2, 3), "Base.reverse": X[::-1], "Base.scalarFloorMod": X % 2,
    "Base.scatterAdd": X + Y[SORTED], "Base.scatterDiv": X / Y[SORTED], "Base.scatterSub": X - Y[SORTED],
    "Base.scatterMax": np.maximum(X, Y[SORTED]), "Base.scatterUpdate": Y[SORTED], "Base.segmentSum": X[SORTED],
    "Base.sequenceMask": np.arange(3) < IDS[:, None], "Base.slice": SIX[2:], "Base.stack": np.stack([X, Y]),
    "Base.squaredNorm": X @ X, "Base.stridedSlice": SIX[::2], "Base.tensorMmul": M @ M.T, "Base.tile": np.tile(X, 2),
    "Base.transpose": M.T, "Base.unsortedSegmentSqrtN": X[SORTED], "Base.variance": X.var(), "Base.zerosLike": 0 * X,
    "Bitwise.bitRotl": [10, 24, 56], "Bitwise.xor": [4, 4, 4], "Bitwise.rightShift": [2, 1, 0],
    "Linalg.cross": np.cross(X, Y), "Linalg.Solve": np.linalg.solve(A, X), "Linalg.logdet": np.linalg.slogdet(A)[1],
    "Linalg.Cholesky": np.linalg.cholesky(A), "Math.matrixInverse": np.linalg.inv(A), "Linalg.tri": np.tri(3),
    "Linalg.TriangularSolve": np.linalg.solve(np.tril(A), X), "Linalg.Lstsq": np.linalg.solve(A, X),
    "Loss.l2Loss": X @ X / 2,
    "Math.ClipByAvgNorm": X * 3 / np.sqrt(X @ X) if np.sqrt(X @ X) > 3 else X, "Math.MergeMaxIndex": [0, 1, 0],
    "Math.amean": 2, "Math.atan2": np.arctan2(X, Y), "Math.clipByNorm": X / np.sqrt(X @ X),
    "Math.cosineSimilarity": X @ Y / np.sqrt(X @ X * (Y @ Y)), "Math.countZero": 0, "Math.cube": X**3,
    "Math.entropy": -(Y * np.log(Y)).sum(), "Math.euclideanDistance": np.sqrt(((X - Y) ** 2).sum()),
    "Math.eye": np.eye(3), "Math.firstIndex": 2, "Math.floorDiv": X // Y, "Math.hammingDistance": 3,
    "Math.lastIndex": 2, "Math.logSumExp": np.log(np.exp(X).sum()), "Math.manhattanDistance": abs(X - Y).sum(),
    "Math.shannonEntropy": -(Y * np.log2(Y)).sum(), "Math.standardize": (X - X.mean()) / X.std(),
    "Math.trace": 9, "Math.xor": [0, 1, 0], "Math.zeroFraction": 0,
    "NN.CReLU": np.append(np.maximum(X, 0), np.maximum(-X, 0)), "NN.hardTanhDerivative": [0, 0, 0],
    "NN.leakyReluDerivative": [1, 0.01, 1], "NN.linear": X.sum() + Y, "NN.pad": [0, *X, 0], "NN.relu6": [1, 0, 3],
    "NN.softsign": X / (1 + abs(X)), "NN.softsignDerivative": 1 / (1 + abs(X)) ** 2,
}  # fmt: skip
"""Values of the spellings, by NumPy."""


@cache
def rows() -> dict[str, tuple[str, str]]:
    """The spelling and the note of each operation, by namespace and name."""
    entries = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        namespace, _, table = section.partition("\n")
        for name, code, note in ROW.findall(table):
            entries[f"{namespace}.{name}"] = (code.replace("\\|", "|"), note)
    return entries


@cache
def tensors() -> dict[str, Any]:
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    return names


def test_every_operation_has_a_spelling_or_a_reason() -> None:
    names = [f"{namespace}.{name}" for namespace, listed in NAMESPACES.items() for name in listed.split()]
    assert len(names) >= 198 and sorted(rows()) == sorted(names)
    assert not [name for name, (code, note) in rows().items() if not code and not note]


@pytest.mark.parametrize("name", [name for name, (code, _) in rows().items() if code])
def test_spellings_work(name: str) -> None:
    value = eval(rows()[name][0], dict(tensors()))
    results = [t for t in (value if isinstance(value, list | tuple) else [value]) if isinstance(t, oc.Tensor)]
    with oc.use_backend("numpy"):
        values = oc.evaluate(results)
    expected = EXPECTED.get(name)
    if expected is not None:
        np.testing.assert_allclose(values[0], np.asarray(expected, float), rtol=1e-4, atol=1e-5)


def test_the_values_are_of_rows_of_the_page() -> None:
    assert EXPECTED.keys() <= rows().keys()
