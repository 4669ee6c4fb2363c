// What a device with a root believes: it brings roots, timestamp and snapshots, and judges offers
// by them. The state is in trust_parts.h.
#ifndef DEV_DEVICE_TRUST_H
#define DEV_DEVICE_TRUST_H

#include "core/base/runtime.h"
#include "wire/trust/meta.h"

extern const struct dev_part dev_trust_part;
bool dev_trust_is_rooted(const struct dev_runtime *runtime); // it has a root, so all below applies
bool dev_trust_is_busy(const struct dev_runtime *runtime);
// The director's answer that came last.
const struct wire_director *dev_trust_answer(const struct dev_runtime *runtime);
// Is it a refusal for the time alone? Then device, gateway or signer has a wrong clock, or somebody
// holds back what is newer.
bool dev_trust_is_late(enum base_status status);
// A statement's signatures did not verify. True: its keys may be those of a newer root, which is
// brought first, and then the device asks again. Once per statement, and seldom.
bool dev_trust_looks(struct dev_runtime *runtime, uint64_t mark);

// Metadata that comes with the answer to a check-in, in place of the answer to the first request of
// a cycle. It is kept until that answer is here whole (dev_trust_metadata_end) and taken only if a
// cycle would ask now; if the answer fails it is dropped, and the cycle asks.
void dev_trust_metadata_begin(struct dev_runtime *runtime);
void dev_trust_metadata_add(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
void dev_trust_metadata_end(struct dev_runtime *runtime);
void dev_trust_metadata_drop(struct dev_runtime *runtime);

// What is believed, for who shows it.
struct dev_trust_view {
    uint64_t root_version;
    uint64_t timestamp_version; // 0: none
    uint64_t timestamp_expires_s;
};
struct dev_trust_view dev_trust_view(const struct dev_runtime *runtime);
// In the stored record; `ordered`: with the last order.
void dev_trust_write(const struct dev_runtime *runtime, struct base_writer *writer);
void dev_trust_read(struct dev_runtime *runtime, struct base_reader *reader, bool ordered);

// ---- trust_judge.c
// Draws the nonce of a check-in and writes the header's value; `metadata`: it may come with the
// answer.
void dev_trust_ask(struct dev_runtime *runtime, bool metadata, char text[WIRE_ASK_TEXT_MAX + 1]);
// The first envelope of an answer: a director's answer to the question that is out.
void dev_trust_director(struct dev_runtime *runtime, const uint8_t *bytes, size_t size);
// May a release be followed, as far as director, timestamp and snapshot go? BUSY: metadata is to
// be brought first, then the device asks again.
BASE_NODISCARD enum base_status dev_trust_release(struct dev_runtime *runtime,
                                                  const struct wire_release *release);
// May a STOP be followed, as far as the director goes? BUSY: its answer was refused already.
BASE_NODISCARD enum base_status dev_trust_names_stop(const struct dev_runtime *runtime,
                                                     uint64_t task_id);
// May a mark for `task` be followed, as far as director, timestamp and snapshot go? As above.
BASE_NODISCARD enum base_status dev_trust_again(struct dev_runtime *runtime,
                                                const struct dev_task *task,
                                                const struct wire_again *mark);
// The director's answer that came last is in force once more, until dev_trust_rest. False: it does
// not hold any more, and the device is to ask: something of it was followed, another question went
// out, another root came, or it is older than an answer may be under way, by either clock.
BASE_NODISCARD bool dev_trust_resume(struct dev_runtime *runtime);
void dev_trust_rest(struct dev_runtime *runtime);
// When it came, by the time that leases go by.
uint64_t dev_trust_answered_s(const struct dev_runtime *runtime);
// Something of the director's answer is followed: its order was the last one.
void dev_trust_followed(struct dev_runtime *runtime);
// Signatures of a release alone.
BASE_NODISCARD enum base_status dev_trust_signatures(struct dev_runtime *runtime,
                                                     const struct wire_envelope *envelope,
                                                     const struct wire_release *release);

#endif
