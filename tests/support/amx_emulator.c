/* Executes the instructions of Intel AMX on processors without them: a handler of SIGILL decodes the instruction,
   executes it on tiles in memory, and continues after it.

   Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volumes 1 (chapter 18) and 2. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

static _Thread_local struct {
    int is_configured;
    uint16_t columns[TILES]; /* bytes per row */
    uint8_t rows[TILES];
    uint8_t data[TILES][ROWS][ROW_BYTES];
} tiles;

static long executed;
static struct sigaction previous;

long amx_executed(void) { return __atomic_load_n(&executed, __ATOMIC_RELAXED); }

static float flushed(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
    memcpy(&x, &bits, 4);
    return x;
}

static float widened(const uint8_t *half) {
    uint32_t bits = (uint32_t)(half[0] | half[1] << 8) << 16;
    float x;
    memcpy(&x, &bits, 4);
    return flushed(x);
}

static float *cell(int tile, int row, int column) { return (float *)&tiles.data[tile][row][4 * column]; }

static void multiply(int sums, int left, int right) { /* TDPBF16PS */
    for (int m = 0; m < tiles.rows[sums]; m++)
        for (int n = 0; n < tiles.columns[sums] / 4; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < tiles.columns[left] / 4; k++) {
                const uint8_t *x = &tiles.data[left][m][4 * k], *y = &tiles.data[right][k][4 * n];
                even = flushed(__builtin_fmaf(widened(x), widened(y), even));
                odd = flushed(__builtin_fmaf(widened(x + 2), widened(y + 2), odd));
            }
            float *total = cell(sums, m, n);
            *total = flushed(flushed(*total) + flushed(even + odd));
        }
}

static int configure(const uint8_t *memory) { /* LDTILECFG */
    if (memory[0] != 1 || memory[1] != 0) return 0;
    for (int t = 0; t < TILES; t++) {
        tiles.columns[t] = (uint16_t)(memory[16 + 2 * t] | memory[17 + 2 * t] << 8);
        tiles.rows[t] = memory[48 + t];
        if (tiles.columns[t] > ROW_BYTES || tiles.rows[t] > ROWS || !tiles.columns[t] != !tiles.rows[t]) return 0;
    }
    for (int n = 2; n < 16; n++)
        if (memory[n]) return 0;
    memset(tiles.data, 0, sizeof tiles.data);
    tiles.is_configured = 1;
    return 1;
}

static int is_valid(int tile) { return tiles.is_configured && tile < TILES && tiles.rows[tile] > 0; }

/* The order of general registers in machine code. */
static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* Executes one instruction and returns its length; 0 if it is none of those that are emulated. */
static int execute(const uint8_t *code, greg_t *general) {
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2) return 0; /* VEX with three bytes, opcode map 0F38 */
    int r = !(code[1] & 0x80), x = !(code[1] & 0x40), b = !(code[1] & 0x20);
    int v = ~(code[2] >> 3) & 15, is_wide = code[2] >> 7, is_256 = code[2] >> 2 & 1, prefix = code[2] & 3;
    int opcode = code[3], mod = code[4] >> 6, reg = (code[4] >> 3 & 7) | r << 3, rm = code[4] & 7;
    if (is_wide || is_256) return 0;
    if (opcode == 0x49 && code[4] == 0xc0 && prefix == 0) { /* TILERELEASE */
        memset(&tiles, 0, sizeof tiles);
        return 5;
    }
    if (opcode == 0x49 && mod == 3 && rm == 0 && prefix == 3) { /* TILEZERO */
        if (!is_valid(reg)) return 0;
        memset(tiles.data[reg], 0, sizeof tiles.data[reg]);
        return 5;
    }
    if (opcode == 0x5c && mod == 3 && prefix == 2) {
        int left = rm | b << 3;
        if (!is_valid(reg) || !is_valid(left) || !is_valid(v) || reg == left || reg == v || left == v) return 0;
        if (tiles.rows[reg] != tiles.rows[left] || tiles.columns[reg] != tiles.columns[v]) return 0;
        if (tiles.columns[left] != 4 * tiles.rows[v]) return 0;
        multiply(reg, left, v);
        return 5;
    }
    if (mod == 3) return 0;
    int length = 5, index = 4, scale = 0, base = rm | b << 3, has_base = 1;
    if (rm == 4) {
        scale = code[5] >> 6, index = (code[5] >> 3 & 7) | x << 3, base = (code[5] & 7) | b << 3, length = 6;
        has_base = !(mod == 0 && (code[5] & 7) == 5);
    }
    int is_relative = rm == 5 && mod == 0;
    int64_t displacement = 0;
    if (mod == 1) displacement = (int8_t)code[length], length += 1;
    if (mod == 2 || is_relative || !has_base) {
        int32_t word;
        memcpy(&word, code + length, 4);
        displacement = word, length += 4;
    }
    int64_t address = displacement;
    if (is_relative) address += (int64_t)(code + length);
    else if (has_base) address += general[registers[base]];
    int64_t stride = index == 4 ? 0 : general[registers[index]] << scale;
    if (opcode == 0x49 && prefix == 0 && reg == 0) return configure((const uint8_t *)(address + stride)) ? length : 0;
    if (opcode != 0x4b || rm != 4 || !is_valid(reg) || (prefix != 3 && prefix != 2 && prefix != 1)) return 0;
    for (int row = 0; row < tiles.rows[reg]; row++) { /* TILELOADD, TILELOADDT1, TILESTORED */
        uint8_t *memory = (uint8_t *)(address + row * stride);
        if (prefix == 2) memcpy(memory, tiles.data[reg][row], tiles.columns[reg]);
        else {
            memset(tiles.data[reg][row], 0, ROW_BYTES);
            memcpy(tiles.data[reg][row], memory, tiles.columns[reg]);
        }
    }
    return length;
}

static void on_illegal_instruction(int signal, siginfo_t *info, void *context) {
    (void)info;
    greg_t *general = ((ucontext_t *)context)->uc_mcontext.gregs;
    int length = execute((const uint8_t *)general[REG_RIP], general);
    if (length == 0) { /* the instruction is executed again, and terminates the process */
        sigaction(signal, &previous, NULL);
        return;
    }
    general[REG_RIP] += length;
    __atomic_add_fetch(&executed, 1, __ATOMIC_RELAXED);
}

int amx_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGILL, &action, &previous);
}
