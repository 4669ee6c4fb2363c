// Vertical merging: one region that reads a virtual tensor, composed with one region that writes
// it, gives the region that reads the original source. Pure.
#ifndef ENG_PROGRAM_REGION_MERGE_H
#define ENG_PROGRAM_REGION_MERGE_H

#include "program/region.h"

enum eng_merge {
    ENG_MERGE_EMPTY, // `outer` reads nothing of what `inner` writes
    ENG_MERGE_DONE,  // *out is the composition, canonical
    ENG_MERGE_NO,    // not one region: the tensor in between has to be made real
};

// `inner` is canonical and does not accumulate. Elements that `outer` reads and `inner` does not
// write are left out: another region of the tensor in between, or its zero fill, has them.
enum eng_merge eng_region_merge(const struct eng_wide *outer, const struct eng_wide *inner,
                                struct eng_wide *out);

#endif
