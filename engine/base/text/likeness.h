// How far two words are apart: to say what was probably meant by one that nobody knows.
#ifndef BASE_LIKENESS_H
#define BASE_LIKENESS_H

#include "base/str.h"

#include <stdint.h>

#define BASE_LIKENESS_LETTERS 32u // of a word that are looked at

// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
uint32_t base_likeness(struct base_str left, struct base_str right);

// Looks for the one word, of those that are offered to it, that was probably meant.
struct base_nearest {
    struct base_str word;
    uint32_t best;
    const char *found; // as it was offered; NULL: none is near
};

static inline struct base_nearest base_nearest_to(struct base_str word)
{
    size_t letters = word.size < BASE_LIKENESS_LETTERS ? word.size : BASE_LIKENESS_LETTERS;
    return (struct base_nearest){.word = word, .best = (uint32_t)letters / 3 + 2};
}

static inline void base_nearest_offer(struct base_nearest *nearest, const char *word)
{
    uint32_t apart = base_likeness(nearest->word, base_str_of(word));
    if (apart < nearest->best) {
        nearest->best = apart;
        nearest->found = word;
    }
}

#endif
