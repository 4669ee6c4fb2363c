// The Mersenne Twister (Matsumoto and Nishimura, 1998) with 53-bit reals and the polar method for
// normal numbers (Marsaglia), in the order in which NumPy's RandomState draws them. Called by
// walle.np.random on the VM's thread. The generator is a root of the heap: it is gone with the run,
// and an image of a run holds it.
#include "vm/np/np_draws.h"

#include <math.h>
#include <string.h>

#define SHIFTED       397 // words between the two that are mixed
#define HIGH_BIT      0x80000000U
#define LOW_BITS      0x7fffffffU
#define TWIST         0x9908b0dfU
#define ARRAY_SEED    19650218U
#define UNSEEDED_MARK 0x77616c6cU

MP_REGISTER_ROOT_POINTER(struct np_draws *dev_np_run_draws);

void dev_np_draws_seed(struct np_draws *draws, uint32_t seed)
{
    for (uint32_t i = 0; i < NP_TWISTER_WORDS; i++) {
        draws->words[i] = seed;
        seed = 1812433253U * (seed ^ (seed >> 30)) + i + 1;
    }
    draws->at = NP_TWISTER_WORDS;
    draws->is_seeded = true;
    draws->has_spare = false;
    draws->spare = 0;
}

// The word behind `word` mixed with the one before it; the last one is also the first.
static uint32_t mixed(struct np_draws *draws, uint32_t word, uint32_t factor)
{
    uint32_t before = draws->words[word - 1];
    return draws->words[word] ^ ((before ^ (before >> 30)) * factor);
}

static uint32_t word_next(struct np_draws *draws, uint32_t word)
{
    if (word + 1 < NP_TWISTER_WORDS) {
        return word + 1;
    }
    draws->words[0] = draws->words[NP_TWISTER_WORDS - 1];
    return 1;
}

void dev_np_draws_seed_many(struct np_draws *draws, const uint32_t *seeds, size_t count)
{
    dev_np_draws_seed(draws, ARRAY_SEED);
    uint32_t word = 1;
    size_t rounds = count > NP_TWISTER_WORDS ? count : NP_TWISTER_WORDS;
    size_t which = 0;
    dev_np_pay(rounds);
    for (size_t i = 0; i < rounds; i++) {
        draws->words[word] = mixed(draws, word, 1664525U) + seeds[which] + (uint32_t)which;
        word = word_next(draws, word);
        which = which + 1 < count ? which + 1 : 0;
    }
    for (uint32_t i = 1; i < NP_TWISTER_WORDS; i++) {
        draws->words[word] = mixed(draws, word, 1566083941U) - word;
        word = word_next(draws, word);
    }
    draws->words[0] = HIGH_BIT;
}

// --- what an unseeded generator begins with

static uint32_t folded(uint32_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * 16777619U; // FNV-1a
    }
    return hash;
}

static void seed_of_run(struct np_draws *draws)
{
    const struct dev_vm_job *job = dev_vm_current->job;
    dev_vm_outside(dev_vm_current);
    dev_vm_current->out->looked = true;
    uint32_t input = folded(UNSEEDED_MARK, job->input.data, job->input.size);
    uint32_t events = UNSEEDED_MARK;
    for (uint32_t i = 0; i < job->event_count; i++) {
        const struct dev_event *event = &job->events[i];
        events = folded(events, &event->seq, sizeof(event->seq));
        events = folded(events, &event->wall_ms, sizeof(event->wall_ms));
    }
    dev_np_pay(job->input.size);
    const uint32_t seeds[] = {(uint32_t)job->device_id, (uint32_t)(job->device_id >> 32), input,
                              events};
    dev_np_draws_seed_many(draws, seeds, sizeof(seeds) / sizeof(seeds[0]));
}

struct np_draws *dev_np_draws_held(void)
{
    struct np_draws *draws = MP_STATE_VM(dev_np_run_draws);
    if (draws == NULL) {
        draws = m_new_obj(struct np_draws);
        draws->is_seeded = false;
        MP_STATE_VM(dev_np_run_draws) = draws;
    }
    return draws;
}

struct np_draws *dev_np_draws(void)
{
    struct np_draws *draws = dev_np_draws_held();
    if (!draws->is_seeded) {
        seed_of_run(draws);
    }
    return draws;
}

// --- draws

static uint32_t twisted(uint32_t high, uint32_t low, uint32_t other)
{
    uint32_t both = (high & HIGH_BIT) | (low & LOW_BITS);
    return other ^ (both >> 1) ^ ((both & 1) != 0 ? TWIST : 0);
}

static void words_make(struct np_draws *draws)
{
    uint32_t *words = draws->words;
    for (uint32_t i = 0; i < NP_TWISTER_WORDS; i++) {
        uint32_t next = i + 1 < NP_TWISTER_WORDS ? i + 1 : 0;
        uint32_t other =
            i + SHIFTED < NP_TWISTER_WORDS ? i + SHIFTED : i + SHIFTED - NP_TWISTER_WORDS;
        words[i] = twisted(words[i], words[next], words[other]);
    }
    draws->at = 0;
}

uint32_t dev_np_draw_u32(struct np_draws *draws)
{
    if (draws->at == NP_TWISTER_WORDS) {
        words_make(draws);
    }
    uint32_t word = draws->words[draws->at++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680U;
    word ^= (word << 15) & 0xefc60000U;
    return word ^ (word >> 18);
}

uint64_t dev_np_draw_u64(struct np_draws *draws)
{
    uint64_t high = dev_np_draw_u32(draws);
    return high << 32 | dev_np_draw_u32(draws);
}

double dev_np_draw_unit(struct np_draws *draws)
{
    double high = (double)(dev_np_draw_u32(draws) >> 5);
    double low = (double)(dev_np_draw_u32(draws) >> 6);
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

double dev_np_draw_normal(struct np_draws *draws)
{
    if (draws->has_spare) {
        draws->has_spare = false;
        return draws->spare;
    }
    double x, y, square;
    do { // a point of the unit circle: four of five are
        x = 2.0 * dev_np_draw_unit(draws) - 1.0;
        y = 2.0 * dev_np_draw_unit(draws) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    double factor = sqrt(-2.0 * log(square) / square);
    draws->spare = factor * x;
    draws->has_spare = true;
    return factor * y;
}

uint64_t dev_np_draw_up_to(struct np_draws *draws, uint64_t most)
{
    if (most == 0) {
        return 0;
    }
    uint64_t mask = UINT64_MAX >> __builtin_clzll(most);
    uint64_t drawn;
    do {
        drawn = (most <= UINT32_MAX ? dev_np_draw_u32(draws) : dev_np_draw_u64(draws)) & mask;
    } while (drawn > most);
    return drawn;
}
