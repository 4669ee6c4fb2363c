// How far two words are apart: to say what was probably meant by one that nobody knows.
#ifndef BASE_LIKENESS_H
#define BASE_LIKENESS_H

#include "base/str.h"

#include <stdint.h>

#define BASE_LIKENESS_LETTERS 32u // of a word that are looked at

// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
uint32_t base_likeness(struct base_str a, struct base_str b);

#endif
