// The restricted edit distance (insert, leave out, replace, exchange two neighbours), row by row;
// three rows are all it keeps. Called where a word is not known and a near one may have been meant:
// by near_option.c, by `walle task build` (cli/base/task_hint.c) and by the gateway's hints about
// targets (svc/device/reach.c). Pure; any thread. Words count up to BASE_LIKENESS_LETTERS, so it is
// bounded whatever is asked.
#include "base/text/likeness.h"

#include "base/check.h"

static uint32_t least(uint32_t left, uint32_t right)
{
    return left < right ? left : right;
}

static uint32_t letters(struct base_str word)
{
    return word.size < BASE_LIKENESS_LETTERS ? (uint32_t)word.size : BASE_LIKENESS_LETTERS;
}

uint32_t base_likeness(struct base_str left, struct base_str right)
{
    uint32_t rows[3][BASE_LIKENESS_LETTERS + 1];
    uint32_t a_size = letters(left);
    uint32_t b_size = letters(right);
    for (uint32_t j = 0; j <= b_size; j++) {
        rows[0][j] = j;
    }
    for (uint32_t i = 1; i <= a_size; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        const uint32_t *higher = rows[(i + 1) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= b_size; j++) {
            uint32_t cost = left.data[i - 1] != right.data[j - 1];
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
            if (i > 1 && j > 1 && left.data[i - 1] == right.data[j - 2] &&
                left.data[i - 2] == right.data[j - 1]) {
                row[j] = least(row[j], higher[j - 2] + 1);
            }
        }
    }
    base_assert(rows[a_size % 3][b_size] <= (a_size > b_size ? a_size : b_size));
    return rows[a_size % 3][b_size];
}
