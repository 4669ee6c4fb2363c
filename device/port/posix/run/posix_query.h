// Questions a script asks while it runs (walle.data.query, walle.store), carried from the worker's
// thread to the loop, which owns the feature store, and the rows back. The worker waits meanwhile;
// the loop never waits for it.
#ifndef POSIX_QUERY_H
#define POSIX_QUERY_H

#include "pipeline/storage/feature_store.h"
#include "pipeline/storage/task_store.h"
#include "posix/run/posix_given.h"
#include "vm/vm.h"

struct posix_query;

// The run whose questions are answered.
struct posix_query_run {
    struct dev_task_store_of of;    // its store
    uint64_t run_index;             // of a shadow that of the run it is compared with
    bool shadow;                    // its store is the one which that run was given
    struct posix_given_list *given; // where such are kept; outlives the query
};

// `wake` is called on the worker's thread when a question waits: then posix_query_serve is to be
// called on the loop. NOMEM.
BASE_NODISCARD enum base_status posix_query_new(void *ctx, void (*wake)(void *ctx),
                                                struct posix_query **out);
void posix_query_free(struct posix_query *query); // accepts NULL
// For a job: asks and waits. CLOSED once posix_query_close was called.
struct dev_vm_data_port posix_query_port(struct posix_query *query);
// Loop: answers what waits, from `features` (NULL: there are none).
void posix_query_serve(struct posix_query *query, struct dev_feature_store *features,
                       uint64_t now_us);
// Loop: the run is to end; whoever waits gets CLOSED. Open again before the next run.
void posix_query_close(struct posix_query *query);
void posix_query_open(struct posix_query *query, const struct posix_query_run *run);
// Loop: the run ended, as it should (`ran`) or not. What it was given of its store is kept for a
// shadow of it, where one is to run (`keep`); of a shadow's run it is not needed any more.
void posix_query_ended(struct posix_query *query, bool ran, bool keep);
// Whose store it was that the run had; borrowed until the next open.
const struct dev_task_store_of *posix_query_of(const struct posix_query *query);

#endif
