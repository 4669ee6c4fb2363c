// The stores that runs were given, in a list: of the few tasks that have a shadow and keep
// something. Called by posix_query.c, which fills one in when a run first looks at its store, and
// by the owner of the list at its end; on the loop's thread.
#include "posix/run/posix_given.h"

#include <stdlib.h>

struct posix_given *posix_given_new(void)
{
    return calloc(1, sizeof(struct posix_given) + WIRE_STORE_IMAGE_MAX);
}

void posix_given_put(struct posix_given_list *list, uint64_t task_id, uint64_t run_index,
                     struct posix_given *given)
{
    struct posix_given **at = &list->first;
    while (*at != NULL && (*at)->task_id != task_id) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        struct posix_given *old = *at;
        *at = old->next;
        free(old);
    }
    if (given != NULL) {
        struct posix_given *fits = realloc(given, sizeof(*given) + given->size);
        given = fits != NULL ? fits : given;
        given->task_id = task_id;
        given->run_index = run_index;
        given->next = list->first;
        list->first = given;
    }
}

const struct posix_given *posix_given_find(const struct posix_given_list *list, uint64_t task_id,
                                           uint64_t run_index)
{
    const struct posix_given *at = list->first;
    while (at != NULL && at->task_id != task_id) {
        at = at->next;
    }
    return at != NULL && at->run_index == run_index ? at : NULL;
}

void posix_given_done(struct posix_given_list *list)
{
    while (list->first != NULL) {
        struct posix_given *next = list->first->next;
        free(list->first);
        list->first = next;
    }
}
