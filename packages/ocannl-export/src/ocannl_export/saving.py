"""C functions that save and load the arrays of a library as files of safetensors, which `oc.load` reads.

The header of a file is constant but for the seed and the digest: SHA-256 (FIPS 180-4) of the metadata and the table of
tensors as JSON, followed by the SHA-256 of all data in pieces (see `ocannl.checkpoint.safetensors_file`). `load` looks
the tensors up in the header of any file of safetensors: names, types and sizes must be those of the library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ocannl.checkpoint import safetensors_file
from ocannl.checkpoint.saving import DATA, FORMAT, FORMAT_VERSION, KINDS, SEED_KEY, STEP, TYPES, VERSIONS, stored_type
from ocannl_export.c_text import characters
from ocannl_export.library import Field, Library
from ocannl_export.templates import fill, names

NO_SEED = b"0".rjust(len(str(2**64 - 1)))
"""The seed 0 in the header, with room for others."""

SHA256 = """\
struct sha256 {
  uint32_t state[8];
  unsigned char block[64];
  uint64_t bytes;
};

static void sha256_block(struct sha256 *hash, const unsigned char *data)
{
  static const uint32_t constants[64] = {
@CONSTANTS@
  };
  uint32_t w[64], s[8];
  for (int n = 0; n < 16; n++)
    w[n] = (uint32_t)data[4 * n] << 24 | (uint32_t)data[4 * n + 1] << 16 | data[4 * n + 2] << 8 | data[4 * n + 3];
#define ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))
  for (int n = 16; n < 64; n++) {
    uint32_t a = w[n - 15], b = w[n - 2];
    a = ROTATED(a, 7) ^ ROTATED(a, 18) ^ a >> 3;
    b = ROTATED(b, 17) ^ ROTATED(b, 19) ^ b >> 10;
    w[n] = w[n - 16] + a + w[n - 7] + b;
  }
  for (int n = 0; n < 8; n++) s[n] = hash->state[n];
  for (int n = 0; n < 64; n++) {
    uint32_t a = s[0], e = s[4];
    uint32_t mixed = (ROTATED(e, 6) ^ ROTATED(e, 11) ^ ROTATED(e, 25)) + ((e & s[5]) ^ (~e & s[6]));
    uint32_t first = s[7] + mixed + constants[n] + w[n];
    uint32_t second = (ROTATED(a, 2) ^ ROTATED(a, 13) ^ ROTATED(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    for (int k = 7; k > 0; k--) s[k] = s[k - 1];
    s[4] += first;
    s[0] = first + second;
  }
#undef ROTATED
  for (int n = 0; n < 8; n++) hash->state[n] += s[n];
}

static void sha256_start(struct sha256 *hash)
{
  static const uint32_t start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19
  };
  for (int n = 0; n < 8; n++) hash->state[n] = start[n];
  hash->bytes = 0;
}

static void sha256_add(struct sha256 *hash, const unsigned char *data, uint64_t bytes)
{
  for (uint64_t n = 0; n < bytes; n++) {
    hash->block[hash->bytes++ % 64] = data[n];
    if (hash->bytes % 64 == 0) sha256_block(hash, hash->block);
  }
}

static void sha256_finish(struct sha256 *hash, unsigned char digest[32])
{
  uint64_t bits = hash->bytes * 8;
  const unsigned char one = 0x80, zero = 0;
  sha256_add(hash, &one, 1);
  while (hash->bytes % 64 != 56) sha256_add(hash, &zero, 1);
  for (int n = 56; n >= 0; n -= 8) {
    unsigned char byte = (unsigned char)(bits >> n);
    sha256_add(hash, &byte, 1);
  }
  for (int n = 0; n < 32; n++) digest[n] = (unsigned char)(hash->state[n / 4] >> (24 - n % 4 * 8));
}
"""

SAVE = """\
static void add_data(struct sha256 *hash, struct sha256 *piece, const unsigned char *data, uint64_t bytes)
{
  unsigned char digest[32];
  while (bytes) {
    uint64_t room = @PIECE_BYTES@u - piece->bytes, part = bytes < room ? bytes : room;
    sha256_add(piece, data, part);
    data += part;
    bytes -= part;
    if (piece->bytes == @PIECE_BYTES@u) {
      sha256_finish(piece, digest);
      sha256_add(hash, digest, 32);
      sha256_start(piece);
    }
  }
}

size_t @NAME@_saved_size(void)
{
  return @SAVED_BYTES@;
}

int @NAME@_save(const struct @NAME@ *net, void *buffer, size_t size)
{
  unsigned char *bytes = buffer, digest[32];
  const unsigned char *memory = (const unsigned char *)net, *text = (const unsigned char *)digest_start;
  struct sha256 hash, piece;
  if (!net || !buffer) return @CODE_NULL_POINTER@;
  if (size < @SAVED_BYTES@) return @CODE_SMALL_BUFFER@;
  for (size_t n = 0; n < @HEADER_BYTES@; n++) bytes[n] = (unsigned char)header[n];
  for (uint64_t n = @SEED_POSITION@ + @SEED_DIGITS@, seed = net->seed; seed; seed /= 10)
    bytes[--n] = (unsigned char)('0' + seed % 10);
  sha256_start(&hash);
  sha256_start(&piece);
  sha256_add(&hash, text, @BEFORE_KINDS_BYTES@);
  sha256_add(&hash, bytes + @KINDS_POSITION@, @KINDS_BYTES@);
  sha256_add(&hash, text + @BEFORE_KINDS_BYTES@, @BEFORE_SEED_BYTES@);
  sha256_add(&hash, bytes + @SEED_POSITION@, @SEED_DIGITS@);
  sha256_add(&hash, text + @BEFORE_KINDS_BYTES@ + @BEFORE_SEED_BYTES@, @AFTER_SEED_BYTES@);
  for (size_t n = 0; n < @NUM_SAVED@; n++) {
    const struct saved_array *array = &saved_arrays[n];
    const unsigned char *data = memory + array->offset;
    add_data(&hash, &piece, data, array->bytes);
    for (size_t k = 0; k < array->bytes; k++) bytes[@HEADER_BYTES@ + array->position + k] = data[k];
  }
  if (piece.bytes) {
    sha256_finish(&piece, digest);
    sha256_add(&hash, digest, 32);
  }
  sha256_finish(&hash, digest);
  for (int n = 0; n < 32; n++) {
    bytes[@DIGEST_POSITION@ + 2 * n] = (unsigned char)"0123456789abcdef"[digest[n] >> 4];
    bytes[@DIGEST_POSITION@ + 2 * n + 1] = (unsigned char)"0123456789abcdef"[digest[n] & 15];
  }
  return @CODE_OK@;
}

static int begins_with(const unsigned char *bytes, uint64_t room, const char *text, uint64_t length)
{
  uint64_t n = 0;
  while (n < length && n < room && bytes[n] == (unsigned char)text[n]) n++;
  return n == length;
}

/* Reads digits, and moves the position behind them; false if there are none. */
static int read_number(const unsigned char *head, uint64_t length, uint64_t *position, uint64_t *number)
{
  uint64_t start = *position, n = start;
  for (*number = 0; n < length && n - start < 20 && head[n] >= '0' && head[n] <= '9'; n++)
    *number = *number * 10 + (uint64_t)(head[n] - '0');
  *position = n;
  return n > start;
}

/* The offset of the data of an array with the same description; false if that is not in the header. */
static int find_data(
    const unsigned char *head, uint64_t length, const struct saved_array *array, uint64_t room, uint64_t *start)
{
  for (uint64_t n = 0; n < length; n++) {
    uint64_t k = n + array->description_bytes, end;
    if (!begins_with(head + n, length - n, header + array->description, array->description_bytes)) continue;
    if (n && head[n - 1] == '\\\\') continue;  /* within a name */
    if (!read_number(head, length, &k, start) || k == length || head[k++] != ',') return 0;
    if (!read_number(head, length, &k, &end) || k == length || head[k] != ']') return 0;
    return *start <= end && end - *start == array->bytes && end <= room;
  }
  return 0;
}

/* The seed in the metadata of a checkpoint; false for files of other programs. */
static int find_seed(const unsigned char *head, uint64_t length, uint64_t *seed)
{
  static const char text[] = "\\"seed\\":\\"";
  for (uint64_t n = 0; n < length; n++) {
    uint64_t k = n + sizeof text - 1;
    if (!begins_with(head + n, length - n, text, sizeof text - 1)) continue;
    while (k < length && head[k] == ' ') k++;
    return read_number(head, length, &k, seed) && k < length && head[k] == '"';
  }
  return 0;
}

int @NAME@_load(struct @NAME@ *net, const void *buffer, size_t size)
{
  const unsigned char *bytes = buffer;
  unsigned char *memory = (unsigned char *)net;
  uint64_t length = 0, start;
  if (!net || !buffer) return @CODE_NULL_POINTER@;
  if (size < 8) return @CODE_NOT_SAFETENSORS@;
  for (int n = 7; n >= 0; n--) length = length << 8 | bytes[n];
  if (length > size - 8) return @CODE_NOT_SAFETENSORS@;
  for (int copies = 0; copies < 2; copies++)  /* nothing is changed unless all arrays are there */
    for (size_t n = 0; n < @NUM_SAVED@; n++) {
      const struct saved_array *array = &saved_arrays[n];
      if (!find_data(bytes + 8, length, array, size - 8 - length, &start))
        return @CODE_MISSING_ARRAY@;
      for (size_t k = 0; copies && k < array->bytes; k++) memory[array->offset + k] = bytes[8 + length + start + k];
    }
  if (find_seed(bytes + 8, length, &start)) net->seed = start;
  return @CODE_OK@;
}
"""


def save_and_load(library: Library) -> str:
    """The C text of `NAME_save`, `NAME_saved_size` and `NAME_load`; without arrays to save, these are not defined."""
    saved = library.saved
    arrays = {key_of(field): field for field in saved}
    metadata = _metadata(saved)
    ordered = sorted(saved, key=lambda f: (-stored_type(f.node.precision.numpy).itemsize, key_of(f)))
    table: dict[str, object] = {"__metadata__": {**metadata, safetensors_file.DIGEST: safetensors_file.NO_DIGEST}}
    positions, end = {}, 0
    for field in ordered:
        start, end = end, end + field.nbytes
        positions[field] = start
        table[key_of(field)] = {**_description(field), "data_offsets": (start, end)}
    text = safetensors_file.json_bytes(table)
    length = -(-(8 + len(text)) // 8) * 8 - 8
    header = length.to_bytes(8, "little") + text.ljust(length)
    listed = [[key, str(stored_type(f.node.precision.numpy)), *f.dims] for key, f in sorted(arrays.items())]
    digest_start = json.dumps([dict(sorted(metadata.items())), listed]).encode()
    kinds = json.dumps(metadata[KINDS]).encode()
    before_kinds, _, after_kinds = digest_start.partition(kinds)
    before_seed, _, after_seed = after_kinds.partition(NO_SEED)
    rows = []
    for _, field in sorted(arrays.items()):
        description = _description_start(field)
        location = f"offsetof(struct {library.name}, {field.name}), {field.nbytes}, {positions[field]}"
        rows.append(f"  {{ {header.index(description)}, {len(description)}, {location} }},")
    constants = {
        "PIECE_BYTES": safetensors_file.PIECE_BYTES, "SAVED_BYTES": len(header) + end, "HEADER_BYTES": len(header),
        "BEFORE_KINDS_BYTES": len(before_kinds), "BEFORE_SEED_BYTES": len(before_seed),
        "AFTER_SEED_BYTES": len(after_seed), "SEED_POSITION": header.index(NO_SEED), "SEED_DIGITS": len(NO_SEED),
        "KINDS_POSITION": header.index(kinds), "KINDS_BYTES": len(kinds), "NUM_SAVED": len(rows),
        "DIGEST_POSITION": header.index(safetensors_file.NO_DIGEST.encode()),
    }  # fmt: skip
    numbers = {name: str(number) for name, number in constants.items()}
    return "\n".join([
        fill(SHA256, {"CONSTANTS": _sha256_constants()}),
        f"static const char header[] = {characters(header)};",
        "/* The beginning of what the digest is of, without the kinds and the seed, which the header has as well. */",
        f"static const char digest_start[] = {characters(before_kinds + before_seed + after_seed)};",
        "",
        "static const struct saved_array {",
        "  size_t description, description_bytes;  /* in the header, up to the numbers of the data */",
        "  size_t offset, bytes;  /* in the structure */",
        "  size_t position;  /* in the data of the file */",
        "} saved_arrays[] = {",
        *rows,
        "};",
        "",
        fill(SAVE, {**names(library.name), **numbers}),
    ])


def key_of(field: Field) -> str:
    assert field.entry is not None
    return field.entry.key


def _description(field: Field) -> dict[str, object]:
    kind = safetensors_file.type_name(stored_type(field.node.precision.numpy))
    return {"dtype": kind, "shape": field.dims}


def _description_start(field: Field) -> bytes:
    """The beginning of the description of a tensor in the header, up to the numbers of its data."""
    text = safetensors_file.json_bytes({key_of(field): {**_description(field), "data_offsets": ()}})
    return text[1:].removesuffix(b"]}}")


def _metadata(saved: Sequence[Field]) -> dict[str, str]:
    kinds: dict[str, list[str]] = {}
    for field in saved:
        assert field.entry is not None
        kinds.setdefault(field.entry.kind, []).append(field.entry.key)
    narrow = {
        key_of(f): str(f.node.precision) for f in saved if stored_type(f.node.precision.numpy) != f.node.precision.numpy
    }
    return {
        FORMAT: FORMAT_VERSION, STEP: "null", DATA: "null", SEED_KEY: NO_SEED.decode(), VERSIONS: "{}",
        KINDS: json.dumps(kinds), TYPES: json.dumps(narrow),
    }  # fmt: skip


def _sha256_constants() -> str:
    """The first 32 bits of the fractional parts of the cube roots of the first 64 primes."""
    primes = [n for n in range(2, 312) if all(n % k for k in range(2, n))]
    values = [_cube_root_bits(prime) for prime in primes[:64]]
    return "\n".join(
        "    " + " ".join(f"0x{value:08x}u," for value in values[n : n + 8]) for n in range(0, 64, 8)
    )


def _cube_root_bits(prime: int) -> int:
    low, high = 0, prime << 32
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= prime << 96 else (low, middle)
    return low & 0xFFFFFFFF
