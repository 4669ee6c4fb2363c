// Two results, value by value: do they agree within the declared tolerances, and if not, where do
// they differ first?
//
// Members of objects are paired by name, whatever their order; the nth of a name with the nth of
// that name. Names, texts and the order of lists are exact, as written. Numbers agree when they are
// written alike or lie within the tolerance of the member of the outermost object they are below;
// they are taken as doubles, whole numbers of up to 18 digits exactly. JSON has no NaN and no
// infinity: a text with one is no JSON. A number too large for a double agrees with its own writing
// alone.
#ifndef DEV_RESULT_COMPARE_H
#define DEV_RESULT_COMPARE_H

#include "base/str.h"
#include "wire/tolerance.h"

#define DEV_COMPARE_DEPTH_MAX 32                // nesting of a result
#define DEV_COMPARE_WORK_MAX  (4 * 1024 * 1024) // bytes read to pair members in other orders
#define DEV_DIFFERENCE_TEXT   160
#define DEV_DIFFERENCE_PATH   96 // of the text; what is longer is cut
#define DEV_DIFFERENCE_VALUE  24 // ... for each of the two values

enum dev_agreement {
    DEV_AGREEMENT_AGREE,
    DEV_AGREEMENT_DIFFER,
    DEV_AGREEMENT_UNKNOWN, // no JSON, nested too deep, or too much work: compare them otherwise
    DEV_AGREEMENT_COUNT
};

struct dev_difference {
    uint64_t place; // a hash of the path without the indices of lists: what such failures share
    // "differs at .scores[3]: 0.31 vs 0.87", the active version's value first. Texts themselves are
    // not told, they may be about a person.
    char text[DEV_DIFFERENCE_TEXT + 1];
};

// *out is written when they DIFFER. Pure, no allocation, bounded in time and stack.
enum dev_agreement dev_result_compare(struct base_str active, struct base_str shadow,
                                      const struct wire_tolerances *tolerances,
                                      struct dev_difference *out);

#endif
