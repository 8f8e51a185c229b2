"""Finds speech in a recording, chunk by chunk, with the weights of Silero VAD; the model carries its state.

The weights come with a package that names PyTorch as a requirement, and works here without:

pip install --no-deps silero-vad && python examples/voice_activity.py recording.wav
"""

import sys
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import ocannl as oc
from ocannl import nn

RATE, CHUNK, CONTEXT = 16_000, 512, 64  # samples in a second, in a chunk, and before it that are read with it
WINDOW, HOP, WIDTH = 256, 128, 128
LAYERS = ((128, 1), (64, 2), (64, 2), (128, 1))  # channels and strides of the convolutions
STORED = {
    "spectrum.w": "stft_conv.weight",
    "cell.w_x": "lstm_cell.weight_ih",
    "cell.w_h": "lstm_cell.weight_hh",
    "logit.w": "final_conv.weight",
    "logit.b": "final_conv.bias",
    **{f"conv_{n}.w": f"conv{n}.weight" for n in range(1, 5)},
    **{f"conv_{n}.b": f"conv{n}.bias" for n in range(1, 5)},
}


@oc.op
def speech_probability(chunk):
    """`b|t => b|1`. States are the end of the last chunk and the state of the LSTM."""
    b = chunk.dims[0]
    last = oc.state("last", 0.0, b=[b], o=[CONTEXT], when="always")
    h, c = (oc.state(name, 0.0, b=[b], o=[WIDTH], when="always") for name in ("h", "c"))
    x = oc.concat("...|a; ...|b => ...|a^b", last, chunk)
    last[...] = oc.concat("...|a^b => ...|b", chunk, b=CONTEXT)
    x = oc.einsum("...|t => ...|t, 0", oc.pad(x, (0, CONTEXT), "...|t => ...|", mode="reflect"))
    parts = nn.conv1d(x, channels=WINDOW + 2, window=WINDOW, stride=HOP, bias=False, label="spectrum")
    parts = oc.einsum("...|t, (p f) => ...|p, t, f", parts, p=2)  # real and imaginary
    x = oc.sqrt((parts**2).sum("...|p, t, f => ...|t, f"))
    for n, (channels, stride) in enumerate(LAYERS, 1):
        x = oc.relu(nn.conv1d(x, channels=channels, window=3, stride=stride, padding=1, label=f"conv_{n}"))
    h[...], c[...] = nn.lstm_cell((h, c), oc.einsum("...|0, c => ...|c", x), width=WIDTH, label="cell")
    return oc.sigmoid(nn.linear(oc.relu(h), width=1, label="logit"))


def stored_weights():
    folder = Path(find_spec("silero_vad").origin).parent / "data"  # not imported: it would need PyTorch
    return load_file(folder / "silero_vad_16k.safetensors")


class VoiceActivity:
    """A stream of `batch` recordings: a call takes the next 512 samples of each, and returns their probabilities."""

    def __init__(self, stored, ctx=None, batch=1):
        self.ctx, self.model = oc.Context() if ctx is None else ctx, speech_probability(label="vad")
        self.probability = oc.compile(self.model, sizes=f"{batch}|{CHUNK}", ctx=self.ctx)
        self.probability(np.zeros((batch, CHUNK), "float32"))  # creates parameters and states
        weights = {path: stored[name] for path, name in STORED.items()}
        weights["cell.b"] = stored["lstm_cell.bias_ih"] + stored["lstm_cell.bias_hh"]
        for path, p in self.model.params.items():
            is_kernel = len(p.dims) == 3  # stored as channels of the result, channels of the operand, window
            self.ctx[p] = weights[path].transpose(2, 1, 0) if is_kernel else weights[path].reshape(p.dims)
        self.reset()

    def reset(self):
        for state in self.model.states.values():
            self.ctx[state] = np.zeros(state.dims, "float32")

    def __call__(self, chunk):
        return self.probability(chunk)[:, 0]


def segments(samples, ctx=None, threshold=0.5):
    """The seconds at which speech begins and ends, by chunks."""
    vad = VoiceActivity(stored_weights(), ctx)
    padded = np.pad(samples, (0, -len(samples) % CHUNK)).astype("float32")
    probabilities = [vad(chunk[None])[0] for chunk in padded.reshape(-1, CHUNK)]
    is_speech = np.concatenate([[False], np.array(probabilities) > threshold, [False]])
    borders = np.flatnonzero(np.diff(is_speech)) * CHUNK / RATE
    return [(float(start), float(end)) for start, end in borders.reshape(-1, 2)]


def read(path):
    """The samples of a WAV file: 16 bits, mono, at 16 kHz."""
    with wave.open(str(path)) as file:
        bits, channels, rate = 8 * file.getsampwidth(), file.getnchannels(), file.getframerate()
        if (bits, channels, rate) != (16, 1, RATE):
            form = f"{channels} channels of {bits} bits at {rate} Hz"
            raise SystemExit(f"{path} has {form}, not 1 of 16 bits at {RATE} Hz")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


if __name__ == "__main__":
    for start, end in segments(read(sys.argv[1])):
        print(f"{start:7.2f} s to {end:7.2f} s")
