// HyperLogLog with one byte a register. Called by aggregate.c (the kind DISTINCT) on the stream's
// thread; pure. The estimator is Ertl's (2017, algorithm 6), whose two sums, sigma and tau, end
// when a term no longer changes them; so there are no tables of corrections and no switch to
// another estimate at small counts. Registers only grow, which makes a merge the greater of each
// two.
#include "pipeline/distinct_sketch.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define ALPHA 0.72134752044448170368 // 1 / (2 ln 2)

enum { FORM_ALL, FORM_FEW };

void dev_distinct_add(uint8_t *registers, uint32_t bits, uint64_t hash)
{
    size_t at = (size_t)(hash >> (64 - bits));
    uint64_t rest = hash << bits;
    uint8_t rank = (uint8_t)(rest == 0 ? 65 - bits : (unsigned)__builtin_clzll(rest) + 1);
    if (rank > registers[at]) {
        registers[at] = rank;
    }
}

void dev_distinct_merge(uint8_t *registers, uint32_t bits, const uint8_t *from)
{
    for (size_t i = 0; i < dev_distinct_bytes(bits); i++) {
        registers[i] = registers[i] < from[i] ? from[i] : registers[i];
    }
}

// The part of the registers that are still zero; x < 1. Ends when a term no longer changes the sum.
static double sigma(double x)
{
    double power = 1;
    double sum = x;
    double before;
    do {
        x *= x;
        before = sum;
        sum += x * power;
        power += power;
    } while (sum != before);
    return sum;
}

// The part of the registers that are full.
static double tau(double x)
{
    if (x == 0 || x == 1) {
        return 0;
    }
    double power = 1;
    double sum = 1 - x;
    double before;
    do {
        x = sqrt(x);
        before = sum;
        power /= 2;
        sum -= (1 - x) * (1 - x) * power;
    } while (sum != before);
    return sum / 3;
}

double dev_distinct_estimate(const uint8_t *registers, uint32_t bits)
{
    uint32_t counts[64] = {0};
    uint32_t most = 64 - bits;
    size_t size = dev_distinct_bytes(bits);
    for (size_t i = 0; i < size; i++) {
        counts[registers[i]]++;
    }
    if (counts[0] == size) {
        return 0;
    }
    double m = (double)size;
    double z = m * tau(1 - (double)(size - counts[most + 1]) / m);
    for (uint32_t k = most; k >= 1; k--) {
        z = (z + counts[k]) / 2;
    }
    z += m * sigma((double)counts[0] / m);
    return ALPHA * m * m / z;
}

double dev_distinct_error(uint32_t bits)
{
    return 1.04 / sqrt((double)dev_distinct_bytes(bits));
}

void dev_distinct_encode(struct base_writer *writer, const uint8_t *registers, uint32_t bits)
{
    size_t size = dev_distinct_bytes(bits);
    size_t set = 0;
    for (size_t i = 0; i < size; i++) {
        set += registers[i] != 0;
    }
    bool few = set < size / 3;
    base_writer_u8(writer, few ? FORM_FEW : FORM_ALL);
    if (!few) {
        base_writer_bytes(writer, registers, size);
        return;
    }
    base_writer_varint(writer, set);
    size_t last = 0;
    for (size_t i = 0; i < size; i++) {
        if (registers[i] != 0) {
            base_writer_varint(writer, i - last);
            base_writer_u8(writer, registers[i]);
            last = i;
        }
    }
}

void dev_distinct_decode(struct base_reader *reader, uint8_t *registers, uint32_t bits)
{
    size_t size = dev_distinct_bytes(bits);
    memset(registers, 0, size);
    uint8_t form = base_reader_u8(reader);
    if (form == FORM_ALL) {
        base_reader_copy(reader, registers, size);
    } else if (form == FORM_FEW) {
        uint64_t set = base_reader_varint_max(reader, size);
        size_t at = 0;
        for (uint64_t i = 0; i < set && reader->status == BASE_OK; i++) {
            uint64_t step = base_reader_varint_max(reader, size);
            uint8_t rank = base_reader_u8(reader);
            at += (size_t)step;
            if (at >= size || (i > 0 && step == 0) || rank == 0) {
                base_reader_fail(reader, BASE_ERR_INVALID);
                break;
            }
            registers[at] = rank;
        }
    } else {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    for (size_t i = 0; i < size; i++) {
        if (registers[i] > 65 - bits) {
            base_reader_fail(reader, BASE_ERR_INVALID);
        }
    }
    if (reader->status != BASE_OK) {
        memset(registers, 0, size);
    }
}
