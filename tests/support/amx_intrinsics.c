/* Multiplies small matrices by the intrinsics of a C compiler, to test the emulator with independent machine code. */

#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int amx_install(void);

static uint16_t half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)(bits >> 16);
}

/* The sums of 5 x 7 products of 6 terms with two kinds of addresses; exact in any order. */
int main(void) {
    uint16_t x[5][8], w[3][16][2];
    float sums[2][5][16], wanted;
    uint8_t sizes[64] = {1};
    for (int m = 0; m < 5; m++)
        for (int k = 0; k < 8; k++) x[m][k] = half((float)(m - 2 * k + 3));
    for (int k = 0; k < 3; k++)
        for (int n = 0; n < 16; n++)
            for (int h = 0; h < 2; h++) w[k][n][h] = half((float)(n - k + 2 * h - 7));
    if (amx_install()) return 2;
    uint16_t columns[8] = {28, 28, 0, 0, 12, 0, 28, 0};
    memcpy(sizes + 16, columns, sizeof columns);
    sizes[48] = 5, sizes[49] = 5, sizes[52] = 5, sizes[54] = 3;
    _tile_loadconfig(sizes);
    _tile_zero(0);
    _tile_loadd(4, x, sizeof x[0]);
    _tile_stream_loadd(6, w, sizeof w[0]);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stored(0, sums[0], sizeof sums[0][0]);
    _tile_loadd(1, sums[0], sizeof sums[0][0]);
    _tile_dpbf16ps(1, 4, 6);
    _tile_stored(1, sums[1], sizeof sums[1][0]);
    _tile_release();
    for (int m = 0; m < 5; m++)
        for (int n = 0; n < 7; n++) {
            wanted = 0;
            for (int k = 0; k < 6; k++) wanted += (float)(m - 2 * k + 3) * (float)(n - k / 2 + 2 * (k % 2) - 7);
            if (sums[0][m][n] != wanted || sums[1][m][n] != 2 * wanted) {
                printf("%d %d: %g %g, not %g\n", m, n, sums[0][m][n], sums[1][m][n], wanted);
                return 1;
            }
        }
    return 0;
}
