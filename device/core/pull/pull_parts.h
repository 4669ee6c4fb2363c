// What the files of the pull share: pull_lane.c, what is brought next; device_pull.c, the steps of
// that; pull_answer.c and pull_whole.c, what comes.
#ifndef DEV_PULL_PARTS_H
#define DEV_PULL_PARTS_H

#include "core/pull/pull_state.h"
#include "wire/manifest.h"

// Is it the content of a version that is here already? (device_repair.c)
bool dev_pull_repairing(const struct dev_runtime *runtime);
void dev_pull_idle(struct dev_pull *pull); // nothing is brought
// The steps: finds the next blob that is missing, hashes a slice of what is there of it, asks for
// the rest, makes a slice of it from a delta.
void dev_pull_pick(struct dev_runtime *runtime);
void dev_pull_rehash(struct dev_runtime *runtime);
void dev_pull_ask(struct dev_runtime *runtime, uint64_t now_us);
void dev_pull_decode(struct dev_runtime *runtime);
void dev_pull_cancel(struct dev_runtime *runtime); // the request under way
// Tries again later, or gives up after too many attempts without progress. BASE_ERR_FULL and the
// like have their own words.
void dev_pull_retry(struct dev_runtime *runtime, const char *why);
void dev_pull_storage_failed(struct dev_runtime *runtime, enum base_status status);
// This version can never run here: refused from now on.
void dev_pull_refuse(struct dev_runtime *runtime, enum wire_outcome_kind kind,
                     enum base_status code, const char *why);
// What came is not what was signed: once more, from another place, but not for ever.
void dev_pull_worthless(struct dev_runtime *runtime, enum base_status code, const char *why);
// What is stored of the blob is worthless.
void dev_pull_drop(struct dev_runtime *runtime);
void dev_pull_hash(struct dev_runtime *runtime); // begins anew
// What came of the blob so far is worthless, and so is the delta: bring it whole, at once.
void dev_pull_whole(struct dev_runtime *runtime);
// Every byte is here: only the right hash makes a blob.
void dev_pull_sealed(struct dev_runtime *runtime);

void dev_pull_stop(struct dev_runtime *runtime);

// ---- pull_answer.c
void dev_pull_head(struct dev_runtime *runtime, const struct dev_response_head *head);
void dev_pull_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
void dev_pull_end(struct dev_runtime *runtime, enum base_status status);

// Bytes of the blob that is brought, no more than are missing. False: they could not be stored, and
// the pull goes on later.
bool dev_pull_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);

// ---- pull_whole.c
// Is the request for the blob that was picked to ask for all of its version?
bool dev_whole_asks(const struct dev_runtime *runtime);
// Head and body of the answer to such a request.
void dev_whole_head(struct dev_runtime *runtime, const struct dev_response_head *head);
void dev_whole_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// It ended. True: who was asked does not know the question; the blob is asked for by itself.
bool dev_whole_end(struct dev_runtime *runtime);

// ---- pull_space.c
struct dev_pull_space {
    uint64_t needed; // bytes
    uint64_t free;   // UINT64_MAX: not known
};
// Reserves what the files that are missing need. FULL, and the storage port's codes; what was
// reserved until then is given back with the rest.
BASE_NODISCARD enum base_status dev_pull_space_take(struct dev_runtime *runtime,
                                                    const struct wire_manifest *manifest,
                                                    const struct wire_exclusive_files *exclusive,
                                                    struct dev_pull_space *out);
// The pull of the accepted version ended without success; what is there of it stays.
void dev_pull_space_give(struct dev_runtime *runtime, const struct dev_task *task);

// ---- device_exclusive.c
// The pull asks next which exclusive manifest this device gets in the tree of `manifest`.
void dev_proof_ask(struct dev_runtime *runtime, const struct wire_manifest *manifest);
void dev_proof_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// The answer came whole: the task knows its exclusive manifest, when it leads to the root. HASH,
// TARGET (somebody else's leaf), INVALID and other input codes.
BASE_NODISCARD enum base_status dev_proof_take(struct dev_runtime *runtime);
// The question is answered with no; or it is to be asked again.
void dev_proof_none(struct dev_runtime *runtime);
void dev_proof_forget(struct dev_runtime *runtime);
// The pull is over: whose exclusive files these are is asked anew for every one.
void dev_proof_clear(struct dev_task *task);

// ---- device_delta.c
bool dev_delta_in_use(const struct dev_pull *pull);
// Looks for a dictionary for the blob that was just picked. May move the pull to DECODE, when the
// whole difference is here already.
void dev_delta_choose(struct dev_runtime *runtime, const struct wire_manifest_file *file);
// Is it a coding of deltas that the request under way listed?
bool dev_delta_asked(const struct dev_pull *pull, enum dev_encoding encoding);
// The head of a delta, as asked for. False: of no use.
bool dev_delta_head(struct dev_runtime *runtime, const struct dev_response_head *head);
BASE_NODISCARD enum base_status dev_delta_body(struct dev_runtime *runtime, const uint8_t *bytes,
                                               size_t size);
// One slice into the blob. CORRUPT and the port's errors: this delta does not make it.
BASE_NODISCARD enum base_status dev_delta_decode(struct dev_runtime *runtime, bool *out_end);
void dev_delta_close(struct dev_runtime *runtime);   // unmaps; what is stored stays
void dev_delta_give_up(struct dev_runtime *runtime); // the blob comes whole from now on
void dev_delta_drop(struct dev_runtime *runtime);    // it did its work, or is not needed

#endif
