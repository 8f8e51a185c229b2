"""The names of operations in NumPy, PyTorch, JAX and ONNX.

A row names the operation and its nearest equivalent in each library, `-` where there is none. Names are relative to
`numpy`, `torch` and `jax`; those of ONNX are operators. Equivalents take axes by number where ocannl takes a spec, and
may differ in defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from ocannl.lang.declare.catalogue import OperationRow

LIBRARIES = ("numpy", "torch", "jax", "onnx")
TITLES = ("NumPy", "PyTorch", "JAX", "ONNX")
PREFIXES = {"numpy": "np.", "torch": "torch.", "jax": "jax.", "onnx": ""}
NONE = "-"

TABLE = """
abs                  abs                abs                           numpy.abs                Abs
absolute_error       -                  nn.functional.l1_loss         -                        -
acos                 arccos             acos                          numpy.arccos             Acos
acosh                arccosh            acosh                         numpy.arccosh            Acosh
adaptive_avg_pool1d  -                  nn.functional.adaptive_avg_pool1d -                        -
adaptive_avg_pool2d  -                  nn.functional.adaptive_avg_pool2d -                        -
adaptive_avg_pool3d  -                  nn.functional.adaptive_avg_pool3d -                        -
adaptive_max_pool1d  -                  nn.functional.adaptive_max_pool1d -                        -
adaptive_max_pool2d  -                  nn.functional.adaptive_max_pool2d -                        -
adaptive_max_pool3d  -                  nn.functional.adaptive_max_pool3d -                        -
add                  add                add                           numpy.add                Add
affine_grid          -                  nn.functional.affine_grid     -                        AffineGrid
all                  all                all                           numpy.all                -
and_                 logical_and        logical_and                   numpy.logical_and        And
any                  any                any                           numpy.any                -
argmax               argmax             argmax                        numpy.argmax             ArgMax
argmin               argmin             argmin                        numpy.argmin             ArgMin
argsort              argsort            argsort                       numpy.argsort            -
asin                 arcsin             asin                          numpy.arcsin             Asin
asinh                arcsinh            asinh                         numpy.arcsinh            Asinh
astype               astype             Tensor.to                     numpy.astype             Cast
atan                 arctan             atan                          numpy.arctan             Atan
atan2                arctan2            atan2                         numpy.arctan2            -
atanh                arctanh            atanh                         numpy.arctanh            Atanh
avg_pool1d           -                  nn.functional.avg_pool1d      -                        AveragePool
avg_pool2d           -                  nn.functional.avg_pool2d      -                        AveragePool
avg_pool3d           -                  nn.functional.avg_pool3d      -                        AveragePool
batch_to_space       -                  -                             -                        -
bernoulli            random.binomial    bernoulli                     random.bernoulli         Bernoulli
beta                 random.beta        -                             random.beta              -
binary_cross_entropy -                  nn.functional.binary_cross_entropy_with_logits -                        -
bincount             bincount           bincount                      numpy.bincount           -
bitwise_and          bitwise_and        bitwise_and                   numpy.bitwise_and        BitwiseAnd
bitwise_or           bitwise_or         bitwise_or                    numpy.bitwise_or         BitwiseOr
bitwise_xor          bitwise_xor        bitwise_xor                   numpy.bitwise_xor        BitwiseXor
block                block              -                             numpy.block              -
cast                 astype             Tensor.to                     numpy.astype             Cast
categorical          -                  multinomial                   random.categorical       Multinomial
cbrt                 cbrt               -                             numpy.cbrt               -
cdist                -                  cdist                         -                        -
ceil                 ceil               ceil                          numpy.ceil               Ceil
celu                 -                  nn.functional.celu            nn.celu                  Celu
center_crop          -                  -                             -                        CenterCropPad
channel_shuffle      -                  channel_shuffle               -                        -
choice               random.choice      -                             random.choice            -
chunk                -                  chunk                         -                        -
clip                 clip               clip                          numpy.clip               Clip
concat               concatenate        concatenate                   numpy.concatenate        Concat
contrastive_loss     -                  -                             -                        -
conv1d               -                  nn.functional.conv1d          lax.conv_general_dilated Conv
conv2d               -                  nn.functional.conv2d          lax.conv_general_dilated Conv
conv3d               -                  nn.functional.conv3d          lax.conv_general_dilated Conv
conv_transpose1d     -                  nn.functional.conv_transpose1d lax.conv_transpose       ConvTranspose
conv_transpose2d     -                  nn.functional.conv_transpose2d lax.conv_transpose       ConvTranspose
conv_transpose3d     -                  nn.functional.conv_transpose3d lax.conv_transpose       ConvTranspose
copysign             copysign           copysign                      numpy.copysign           -
cos                  cos                cos                           numpy.cos                Cos
cosh                 cosh               cosh                          numpy.cosh               Cosh
cosine_embedding_loss -                  nn.functional.cosine_embedding_loss -                        -
cosine_similarity    -                  nn.functional.cosine_similarity -                        -
count_nonzero        count_nonzero      count_nonzero                 numpy.count_nonzero      -
cross_entropy        -                  nn.functional.cross_entropy   -                        SoftmaxCrossEntropyLoss
cummax               maximum.accumulate cummax                        lax.cummax               -
cummin               minimum.accumulate cummin                        lax.cummin               -
cumprod              cumprod            cumprod                       numpy.cumprod            -
cumsum               cumsum             cumsum                        numpy.cumsum             CumSum
degrees              degrees            rad2deg                       numpy.degrees            -
depth_to_space       -                  -                             -                        DepthToSpace
diag                 diag               diag                          numpy.diag               -
diagonal             diagonal           diagonal                      numpy.diagonal           -
dice_loss            -                  -                             -                        -
digamma              -                  digamma                       scipy.special.digamma    -
digitize             digitize           bucketize                     numpy.digitize           -
div                  divide             div                           numpy.divide             Div
dot                  vdot               dot                           numpy.vdot               -
dropout              -                  nn.functional.dropout         -                        Dropout
einsum               einsum             einsum                        numpy.einsum             Einsum
elu                  -                  nn.functional.elu             nn.elu                   Elu
eq                   equal              eq                            numpy.equal              Equal
erf                  -                  erf                           scipy.special.erf        Erf
erfc                 -                  erfc                          scipy.special.erfc       -
erfinv               -                  erfinv                        scipy.special.erfinv     -
exp                  exp                exp                           numpy.exp                Exp
exp2                 exp2               exp2                          numpy.exp2               -
expm1                expm1              expm1                         numpy.expm1              -
exponential          random.exponential -                             random.exponential       -
flip                 flip               flip                          numpy.flip               -
floor                floor              floor                         numpy.floor              Floor
fma                  -                  addcmul                       -                        -
fmod                 fmod               fmod                          numpy.fmod               Mod
fold                 -                  nn.functional.fold            -                        Col2Im
fst                  -                  -                             -                        -
gamma                random.gamma       -                             random.gamma             -
gather_nd            -                  -                             -                        GatherND
gaussian_nll_loss    -                  nn.functional.gaussian_nll_loss -                        -
ge                   greater_equal      ge                            numpy.greater_equal      GreaterOrEqual
gelu                 -                  nn.functional.gelu            nn.gelu                  Gelu
glu                  -                  nn.functional.glu             nn.glu                   -
grid_sample          -                  nn.functional.grid_sample     -                        GridSample
gt                   greater            gt                            numpy.greater            Greater
gumbel               random.gumbel      -                             random.gumbel            -
hard_sigmoid         -                  nn.functional.hardsigmoid     nn.hard_sigmoid          HardSigmoid
hard_swish           -                  nn.functional.hardswish       nn.hard_swish            HardSwish
hard_tanh            -                  nn.functional.hardtanh        nn.hard_tanh             Clip
hardshrink           -                  nn.functional.hardshrink      -                        Shrink
heaviside            heaviside          heaviside                     numpy.heaviside          -
hinge_embedding_loss -                  nn.functional.hinge_embedding_loss -                        -
hinge_loss           -                  -                             -                        -
histogram            histogram          histc                         numpy.histogram          -
huber                -                  nn.functional.huber_loss      -                        -
hypot                hypot              hypot                         numpy.hypot              -
id                   positive           positive                      numpy.positive           Identity
index_update         -                  index_copy                    -                        -
interpolate          -                  nn.functional.interpolate     -                        Upsample
iota                 arange             arange                        lax.iota                 Range
iou_loss             -                  -                             -                        -
isclose              isclose            isclose                       numpy.isclose            -
isfinite             isfinite           isfinite                      numpy.isfinite           -
isinf                isinf              isinf                         numpy.isinf              IsInf
isnan                isnan              isnan                         numpy.isnan              IsNaN
kl_div               -                  nn.functional.kl_div          -                        -
kthvalue             partition          kthvalue                      numpy.partition          -
laplace              random.laplace     -                             random.laplace           -
le                   less_equal         le                            numpy.less_equal         LessOrEqual
leaky_relu           -                  nn.functional.leaky_relu      nn.leaky_relu            LeakyRelu
left_shift           left_shift         bitwise_left_shift            numpy.left_shift         BitShift
lerp                 -                  lerp                          -                        -
lgamma               -                  lgamma                        scipy.special.gammaln    -
local_response_norm  -                  nn.functional.local_response_norm -                        LRN
log                  log                log                           numpy.log                Log
log10                log10              log10                         numpy.log10              -
log1p                log1p              log1p                         numpy.log1p              -
log2                 log2               log2                          numpy.log2               -
log_cosh             -                  -                             -                        -
log_sigmoid          -                  nn.functional.logsigmoid      nn.log_sigmoid           -
log_softmax          -                  log_softmax                   nn.log_softmax           LogSoftmax
logaddexp            logaddexp          logaddexp                     numpy.logaddexp          -
logical_xor          logical_xor        logical_xor                   numpy.logical_xor        Xor
logistic             random.logistic    -                             random.logistic          -
logit                -                  logit                         scipy.special.logit      -
logsumexp            -                  logsumexp                     nn.logsumexp             ReduceLogSumExp
lp_pool1d            -                  nn.functional.lp_pool1d       -                        LpPool
lp_pool2d            -                  nn.functional.lp_pool2d       -                        LpPool
lp_pool3d            -                  nn.functional.lp_pool3d       -                        LpPool
lt                   less               lt                            numpy.less               Less
margin_ranking_loss  -                  nn.functional.margin_ranking_loss -                        -
matmul               matmul             matmul                        numpy.matmul             MatMul
matrix_norm          linalg.matrix_norm linalg.matrix_norm            numpy.linalg.matrix_norm -
max                  max                amax                          numpy.max                ReduceMax
max_pool1d           -                  nn.functional.max_pool1d      -                        MaxPool
max_pool2d           -                  nn.functional.max_pool2d      -                        MaxPool
max_pool3d           -                  nn.functional.max_pool3d      -                        MaxPool
maximum              maximum            maximum                       numpy.maximum            Max
mean                 mean               mean                          numpy.mean               ReduceMean
median               median             median                        numpy.median             -
meshgrid             meshgrid           meshgrid                      numpy.meshgrid           -
min                  min                amin                          numpy.min                ReduceMin
minimum              minimum            minimum                       numpy.minimum            Min
mish                 -                  nn.functional.mish            nn.mish                  Mish
mod                  mod                remainder                     numpy.mod                Mod
mul                  multiply           mul                           numpy.multiply           Mul
multi_margin_loss    -                  nn.functional.multi_margin_loss -                        -
multinomial          random.multinomial -                             random.multinomial       -
nan_to_num           nan_to_num         nan_to_num                    numpy.nan_to_num         -
ne                   not_equal          ne                            numpy.not_equal          -
neg                  negative           neg                           numpy.negative           Neg
nonzero              argwhere           nonzero                       numpy.argwhere           NonZero
norm                 linalg.norm        linalg.vector_norm            numpy.linalg.norm        ReduceL2
normal               random.normal      normal                        random.normal            RandomNormal
normalize            -                  nn.functional.normalize       -                        LpNormalization
not_                 logical_not        logical_not                   numpy.logical_not        Not
one_hot              -                  nn.functional.one_hot         nn.one_hot               OneHot
or_                  logical_or         logical_or                    numpy.logical_or         Or
outer                outer              outer                         numpy.outer              -
pad                  pad                nn.functional.pad             numpy.pad                Pad
pairwise_distance    -                  nn.functional.pairwise_distance -                        -
permutation          random.permutation randperm                      random.permutation       -
pick                 take_along_axis    gather                        numpy.take_along_axis    GatherElements
pixel_shuffle        -                  pixel_shuffle                 -                        DepthToSpace
pixel_unshuffle      -                  pixel_unshuffle               -                        -
poisson              random.poisson     poisson                       random.poisson           -
poisson_nll_loss     -                  nn.functional.poisson_nll_loss -                        -
pow                  power              pow                           numpy.power              Pow
prelu                -                  nn.functional.prelu           -                        PRelu
prod                 prod               prod                          numpy.prod               ReduceProd
put_along_axis       put_along_axis     scatter_reduce                numpy.put_along_axis     ScatterElements
quantile             quantile           quantile                      numpy.quantile           -
rademacher           -                  -                             random.rademacher        -
radians              radians            deg2rad                       numpy.radians            -
randint              random.randint     randint                       random.randint           -
random_crop          -                  -                             -                        -
recip                reciprocal         reciprocal                    numpy.reciprocal         Reciprocal
recip_sqrt           -                  rsqrt                         lax.rsqrt                -
relu                 -                  relu                          nn.relu                  Relu
relu6                -                  nn.functional.relu6           nn.relu6                 Clip
relu_gate            -                  -                             -                        -
repeat               repeat             repeat_interleave             numpy.repeat             -
resize               -                  nn.functional.interpolate     image.resize             Resize
right_shift          right_shift        bitwise_right_shift           numpy.right_shift        BitShift
roll                 roll               roll                          numpy.roll               -
rot90                rot90              rot90                         numpy.rot90              -
round                round              round                         numpy.round              Round
sat01                -                  -                             -                        -
sat01_gate           -                  -                             -                        -
scatter_nd           -                  index_put                     lax.scatter              ScatterND
searchsorted         searchsorted       searchsorted                  numpy.searchsorted       -
segment_max          -                  -                             ops.segment_max          -
segment_mean         -                  -                             -                        -
segment_min          -                  -                             ops.segment_min          -
segment_prod         -                  -                             ops.segment_prod         -
segment_sum          -                  index_add                     ops.segment_sum          -
selu                 -                  nn.functional.selu            nn.selu                  Selu
sigmoid              -                  sigmoid                       nn.sigmoid               Sigmoid
sigmoid_focal_loss   -                  -                             -                        -
sign                 sign               sign                          numpy.sign               Sign
signbit              signbit            signbit                       numpy.signbit            -
silu                 -                  nn.functional.silu            nn.silu                  Swish
sin                  sin                sin                           numpy.sin                Sin
sinc                 sinc               sinc                          numpy.sinc               -
sinh                 sinh               sinh                          numpy.sinh               Sinh
smooth_l1_loss       -                  nn.functional.smooth_l1_loss  -                        -
snd                  -                  -                             -                        -
soft_margin_loss     -                  nn.functional.soft_margin_loss -                        -
softmax              -                  softmax                       nn.softmax               Softmax
softmax_focal_loss   -                  -                             -                        -
softplus             -                  nn.functional.softplus        nn.softplus              Softplus
softshrink           -                  nn.functional.softshrink      -                        Shrink
softsign             -                  nn.functional.softsign        nn.soft_sign             Softsign
sort                 sort               sort                          numpy.sort               -
space_to_batch       -                  -                             -                        -
space_to_depth       -                  -                             -                        SpaceToDepth
split                split              split                         numpy.split              Split
sqrt                 sqrt               sqrt                          numpy.sqrt               Sqrt
square               square             square                        numpy.square             -
squared_error        -                  nn.functional.mse_loss        -                        -
stack                stack              stack                         numpy.stack              -
std                  std                std                           numpy.std                -
stop_gradient        -                  Tensor.detach                 lax.stop_gradient        -
sub                  subtract           sub                           numpy.subtract           Sub
sum                  sum                sum                           numpy.sum                ReduceSum
take                 take               index_select                  numpy.take               Gather
take_along_axis      take_along_axis    gather                        numpy.take_along_axis    GatherElements
tan                  tan                tan                           numpy.tan                Tan
tanh                 tanh               tanh                          numpy.tanh               Tanh
tanhshrink           -                  nn.functional.tanhshrink      -                        -
threefry4x32         -                  -                             -                        -
threefry4x32_12      -                  -                             -                        -
threefry4x32_20      -                  -                             -                        -
threshold            -                  nn.functional.threshold       -                        -
tile                 tile               tile                          numpy.tile               Tile
topk                 -                  topk                          lax.top_k                TopK
trace                trace              trace                         numpy.trace              -
tril                 tril               tril                          numpy.tril               Trilu
triplet_margin_loss  -                  nn.functional.triplet_margin_loss -                        -
triu                 triu               triu                          numpy.triu               Trilu
trunc                trunc              trunc                         numpy.trunc              -
truncated_normal     -                  nn.init.trunc_normal_         random.truncated_normal  -
unfold               lib.stride_tricks.sliding_window_view nn.functional.unfold          lax.conv_general_dilated_patches -
uniform              random.uniform     rand                          random.uniform           RandomUniform
unique               unique             unique                        numpy.unique             Unique
var                  var                var                           numpy.var                -
where                where              where                         numpy.where              Where
"""


@dataclass(frozen=True, slots=True)
class PeerNames:
    """The names of one operation in other libraries, empty where a library has no equivalent."""

    numpy: str = ""
    torch: str = ""
    jax: str = ""
    onnx: str = ""


@cache
def peer_names() -> dict[str, PeerNames]:
    """The rows of the table, by the name of the operation."""
    rows = [line.split() for line in TABLE.strip().splitlines()]
    return {name: PeerNames(*("" if cell == NONE else cell for cell in cells)) for name, *cells in rows}


def peers(rows: Sequence[OperationRow]) -> str:
    """The table of names for the page of operations."""
    known = peer_names()
    cells = [_cells(row, known.get(row.name, PeerNames())) for row in sorted(rows, key=lambda row: row.name)]
    lines = [["ocannl", *TITLES], ["---"] * (1 + len(TITLES)), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: OperationRow, peers: PeerNames) -> list[str]:
    return [f"`{row.call}`", *_codes((library, getattr(peers, library)) for library in LIBRARIES)]


def _codes(named: Iterable[tuple[str, str]]) -> list[str]:
    return [f"`{PREFIXES[library]}{name}`" if name else "" for library, name in named]
