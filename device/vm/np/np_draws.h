// walle.np.random: the generator, as the module's functions use it.
//
// The Mersenne Twister MT19937 with the draws that NumPy's RandomState makes of it, so that the
// same seed gives the same numbers. A run has one generator, in the heap of its VM.
#ifndef DEV_NP_DRAWS_H
#define DEV_NP_DRAWS_H

#include "vm/np/np.h"

#define NP_TWISTER_WORDS 624

struct np_draws {
    uint32_t words[NP_TWISTER_WORDS];
    uint32_t at; // words that are used up
    bool is_seeded;
    bool has_spare; // normal numbers are made two at a time
    double spare;
};

// The run's generator. One that no seed was given to begins with the device's id, the run's input
// and its events: a run that is repeated draws the same. Raises MemoryError.
struct np_draws *dev_np_draws(void);
// The same, which may not be seeded yet.
struct np_draws *dev_np_draws_held(void);
void dev_np_draws_seed(struct np_draws *draws, uint32_t seed);
void dev_np_draws_seed_many(struct np_draws *draws, const uint32_t *seeds, size_t count);

uint32_t dev_np_draw_u32(struct np_draws *draws);
uint64_t dev_np_draw_u64(struct np_draws *draws);
double dev_np_draw_unit(struct np_draws *draws);   // [0, 1), 53 bits
double dev_np_draw_normal(struct np_draws *draws); // of mean 0 and deviation 1
// 0 <= number <= most: draws that are too large are thrown away, fewer than half on average.
uint64_t dev_np_draw_up_to(struct np_draws *draws, uint64_t most);

#endif
