// The device core of the worked example: the recorder keeps what the feature needs, numbers events
// and visits, and the book makes features of them. What an app and its task would use, without a
// script between.
//
// Memory is on the heap, made once (ipv_core_new); one device at a time (ipv_core_begin). One
// thread.
#ifndef IPV_CORE_H
#define IPV_CORE_H

#include "ipv_book.h"
#include "pipeline/storage/feature_store.h"
#include "pipeline/record/recorder.h"

struct ipv_core {
    struct ipv_book book;
    const struct ipv_feature *done; // of the event just recorded; NULL: none
    struct dev_event last;          // texts are gone; its numbers stay
    uint64_t events;                // seen, needed or not
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_capture capture;
    void *memory[3];
};

struct ipv_core *ipv_core_new(void);
void ipv_core_free(struct ipv_core *core); // accepts NULL
// A process of a device whose store is `port`, which must outlive the use of the core.
void ipv_core_begin(struct ipv_core *core, const struct dev_kv_port *port, uint64_t entropy);
// Records one event and takes in what the recorder hands over. The finished feature, valid until
// the next call, or NULL.
const struct ipv_feature *ipv_core_record(struct ipv_core *core,
                                          const struct dev_recording *recording);
// Puts the row of a feature into collective storage and commits the group, as page exit does.
void ipv_core_store(struct ipv_core *core, const struct ipv_feature *feature, const char *json,
                    size_t size);

#endif
