// The stores that runs of active versions were given (walle.store), kept until their shadows ran:
// by then the run's own changes are in the store, and a shadow is to begin from what the run began
// from. One for each task, the last; in memory alone, as a shadow is not started for a run of
// before a restart. The loop's thread.
#ifndef POSIX_GIVEN_H
#define POSIX_GIVEN_H

#include "wire/store/store_image.h"

struct posix_given {
    struct posix_given *next;
    uint64_t task_id;
    uint64_t run_index; // of the run that was given it
    size_t size;        // of the image
    uint8_t image[];    // WIRE_STORE_IMAGE_MAX until it is put in a list, which makes it fit
};

struct posix_given_list { // zero: empty
    struct posix_given *first;
};

// A place for an image, for free or _put. NULL: no memory.
struct posix_given *posix_given_new(void);
// Takes `given` over (NULL: nothing) in the place of what was kept for the task.
void posix_given_put(struct posix_given_list *list, uint64_t task_id, uint64_t run_index,
                     struct posix_given *given);
// What that run of the task was given, borrowed until the next put; NULL: it is not kept.
const struct posix_given *posix_given_find(const struct posix_given_list *list, uint64_t task_id,
                                           uint64_t run_index);
void posix_given_done(struct posix_given_list *list);

#endif
