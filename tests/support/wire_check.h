// What must hold for any bytes given to a parser of device/wire, valid or not: no crash, and what
// is accepted encodes back to the very same bytes. Used by the property tests and by the fuzz
// targets.
#ifndef WIRE_CHECK_H
#define WIRE_CHECK_H

#include "older_release.h"

#include "base/check.h"
#include "wire/trust/run_evidence.h"
#include "wire/attrs.h"
#include "wire/declaration.h"
#include "wire/enrolment.h"
#include "wire/event_block.h"
#include "wire/manifest.h"
#include "wire/trust/answer.h"
#include "wire/trust/meta.h"
#include "wire/trust/offer.h"
#include "wire/trust/exclusive_files.h"
#include "wire/profile.h"
#include "wire/report.h"
#include "wire/trust/root.h"
#include "wire/trust/statement.h"

#include <stdlib.h>
#include <string.h>

typedef enum base_status (*wire_check_fn)(const uint8_t *bytes, size_t size);

static inline void wire_check_same(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    base_check(a_size == b_size);
    base_check(memcmp(a, b, a_size) == 0);
}

static inline enum base_status wire_check_attrs(const uint8_t *bytes, size_t size)
{
    struct wire_attrs attrs;
    enum base_status status = wire_attrs_parse(bytes, size, &attrs);
    if (status != BASE_OK) {
        base_check(attrs.count == 0);
        return status;
    }
    uint8_t again[WIRE_ATTRS_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, again, sizeof again);
    wire_attrs_write(&writer, &attrs);
    base_check(writer.status == BASE_OK);
    wire_check_same(bytes, size, again, base_writer_size(&writer));
    return BASE_OK;
}

static inline enum base_status wire_check_profile(const uint8_t *bytes, size_t size)
{
    struct wire_profile profile;
    BASE_TRY(wire_profile_parse(bytes, size, &profile));
    (void)wire_check_attrs(profile.attrs, profile.attrs_bytes);
    struct wire_profile_pair pairs[WIRE_PROFILE_TASKS_MAX];
    bool with_pairs = (profile.flags & WIRE_PROFILE_FLAG_PAIRS) != 0;
    base_check(with_pairs == (profile.pairs != NULL));
    if (with_pairs) {
        struct base_reader reader;
        base_reader_init(&reader, profile.pairs, profile.pairs_bytes);
        for (uint32_t i = 0; i < profile.task_count; i++) {
            base_check(wire_profile_pair_next(&profile, &reader, &pairs[i]) == BASE_OK);
        }
        base_check(base_reader_finish(&reader) == BASE_OK);
    }
    static uint8_t again[WIRE_PROFILE_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_profile_encode(&profile, with_pairs ? pairs : NULL, again, sizeof again,
                                   &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_release(const uint8_t *bytes, size_t size)
{
    struct wire_release release;
    BASE_TRY(wire_release_parse(bytes, size, &release));
    uint8_t again[WIRE_STATEMENT_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_release_encode(&release, again, sizeof again, &again_size) == BASE_OK);
    if (bytes[0] == 1 || bytes[0] == 4) { // from before there was a floor
        base_check(release.floor == 0);
        again_size = older_release(again, again_size, again);
    }
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_envelope(const uint8_t *bytes, size_t size)
{
    struct wire_envelope envelope;
    BASE_TRY(wire_envelope_parse(bytes, size, &envelope));
    (void)wire_check_release(envelope.payload, envelope.payload_bytes);
    static uint8_t again[WIRE_SNAPSHOT_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_envelope_encode(&envelope, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_root(const uint8_t *bytes, size_t size)
{
    struct wire_root root;
    BASE_TRY(wire_root_parse(bytes, size, &root));
    uint8_t again[WIRE_META_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_root_encode(&root, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_evidence(const uint8_t *bytes, size_t size)
{
    struct wire_evidence evidence;
    BASE_TRY(wire_evidence_parse(bytes, size, &evidence));
    uint8_t again[WIRE_META_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_evidence_encode(&evidence, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_snapshot(const uint8_t *bytes, size_t size)
{
    struct wire_snapshot snapshot;
    BASE_TRY(wire_snapshot_parse(bytes, size, &snapshot));
    struct wire_snapshot_entry *entries = calloc(snapshot.count + 1u, sizeof *entries);
    uint8_t *again = malloc(size + 1);
    struct base_reader reader;
    size_t again_size = 0;
    base_check(entries != NULL);
    base_check(again != NULL);
    base_reader_init(&reader, snapshot.entries, snapshot.entries_bytes);
    for (uint32_t i = 0; i < snapshot.count; i++) {
        uint64_t highest = 0;
        base_check(wire_snapshot_next(&reader, &entries[i]) == BASE_OK);
        base_check(i > 64 || wire_snapshot_lists(&snapshot, &entries[i], &highest));
    }
    base_check(base_reader_finish(&reader) == BASE_OK);
    base_check(wire_snapshot_encode(&snapshot, entries, again, size, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    free(entries);
    free(again);
    return BASE_OK;
}

static inline enum base_status wire_check_timestamp(const uint8_t *bytes, size_t size)
{
    struct wire_timestamp timestamp;
    enum base_status status = wire_timestamp_parse(bytes, size, &timestamp);
    if (status != BASE_OK) {
        base_check(timestamp.version == 0);
        return status;
    }
    uint8_t again[WIRE_META_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_timestamp_encode(&timestamp, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_director(const uint8_t *bytes, size_t size)
{
    struct wire_director director;
    BASE_TRY(wire_director_parse(bytes, size, &director));
    uint8_t again[WIRE_STATEMENT_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_director_encode(&director, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_answer(const uint8_t *bytes, size_t size)
{
    struct wire_answer answer;
    BASE_TRY(wire_answer_parse(bytes, size, &answer));
    uint8_t again[WIRE_ANSWER_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_answer_encode(&answer, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return wire_check_director(answer.director.data, answer.director.size);
}

static inline enum base_status wire_check_offers(const uint8_t *bytes, size_t size)
{
    struct wire_offers offers;
    BASE_TRY(wire_offers_parse(bytes, size, &offers));
    for (uint32_t i = 0; i < offers.count; i++) {
        (void)wire_check_envelope(offers.items[i].envelope, offers.items[i].envelope_bytes);
    }
    static uint8_t again[WIRE_OFFERS_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_offers_encode(&offers, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_declaration(const uint8_t *bytes, size_t size)
{
    struct wire_declaration declaration;
    BASE_TRY(wire_declaration_parse(bytes, size, &declaration));
    static uint8_t again[WIRE_DECLARATION_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_declaration_encode(&declaration, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_enrolment(const uint8_t *bytes, size_t size)
{
    struct wire_enrolment enrolment;
    BASE_TRY(wire_enrolment_parse(bytes, size, &enrolment));
    uint8_t again[WIRE_ENROLMENT_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_enrolment_encode(&enrolment, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_manifest(const uint8_t *bytes, size_t size)
{
    struct wire_manifest manifest;
    enum base_status status = wire_manifest_parse(bytes, size, &manifest);
    if (status != BASE_OK) {
        base_check(manifest.file_count == 0);
        return status;
    }
    static uint8_t again[WIRE_MANIFEST_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_manifest_encode(&manifest, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_exclusive(const uint8_t *bytes, size_t size)
{
    struct wire_exclusive_files exclusive;
    enum base_status status = wire_exclusive_parse(bytes, size, &exclusive);
    if (status != BASE_OK) {
        base_check(exclusive.file_count == 0);
        return status;
    }
    uint8_t again[WIRE_EXCLUSIVE_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_exclusive_encode(&exclusive, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

static inline enum base_status wire_check_proof(const uint8_t *bytes, size_t size)
{
    struct wire_proof proof;
    BASE_TRY(wire_proof_parse(bytes, size, &proof));
    uint8_t again[WIRE_PROOF_BYTES_MAX];
    size_t again_size = 0;
    base_check(wire_proof_encode(&proof, again, sizeof again, &again_size) == BASE_OK);
    wire_check_same(bytes, size, again, again_size);
    return BASE_OK;
}

// A list is judged entry by entry; what comes out in order, written again, is what was read.
static inline enum base_status wire_check_entry_list(const uint8_t *bytes, size_t size)
{
    struct wire_entry_list list;
    struct wire_entry entry;
    struct base_writer writer;
    BASE_TRY(wire_entry_list_open(bytes, size, &list));
    uint8_t *again = malloc(size + 1);
    base_check(again != NULL);
    base_writer_init(&writer, again, size);
    wire_entry_list_head(&writer, list.count);
    enum base_status status;
    while ((status = wire_entry_list_next(&list, &entry)) == BASE_OK) {
        wire_entry_write(&writer, &entry);
    }
    if (status == BASE_ERR_NOT_FOUND) {
        base_check(writer.status == BASE_OK);
        wire_check_same(bytes, size, again, base_writer_size(&writer));
        status = BASE_OK;
    }
    free(again);
    return status;
}

static inline enum base_status wire_check_report(const uint8_t *bytes, size_t size)
{
    struct wire_report report;
    enum base_status status = wire_report_parse(bytes, size, &report);
    if (status != BASE_OK) {
        base_check(report.count == 0);
        return status;
    }
    static uint8_t again[WIRE_REPORT_BYTES_MAX];
    static uint8_t third[WIRE_REPORT_BYTES_MAX];
    size_t again_size = 0;
    size_t third_size = 0;
    base_check(wire_report_encode(&report, again, sizeof again, &again_size) == BASE_OK);
    if (bytes[0] == WIRE_REPORT_PLAIN) {
        wire_check_same(bytes, size, again, again_size);
        return BASE_OK;
    }
    // Figures that are not known here are left out.
    base_check(again_size <= size && wire_report_parse(again, again_size, &report) == BASE_OK);
    base_check(wire_report_encode(&report, third, sizeof third, &third_size) == BASE_OK);
    wire_check_same(again, again_size, third, third_size);
    return BASE_OK;
}

// What is accepted encodes to a block that says the same. Not the same bytes: a foreign writer may
// order its tables otherwise.
static inline enum base_status wire_check_event_block(const uint8_t *bytes, size_t size)
{
    static struct wire_event_block block;
    static struct wire_event events[WIRE_EVENT_BLOCK_EVENTS_MAX];
    static uint8_t attrs[WIRE_EVENT_BLOCK_EVENTS_MAX][WIRE_EVENT_ATTRS_BYTES];
    static uint8_t again[WIRE_EVENT_BLOCK_BYTES_MAX];
    struct wire_event event;
    enum base_status status = wire_event_block_parse(bytes, size, &block);
    if (status != BASE_OK) {
        base_check(!wire_event_block_next(&block, &event));
        return status;
    }
    uint32_t count = 0;
    while (wire_event_block_next(&block, &event)) {
        base_check(count < WIRE_EVENT_BLOCK_EVENTS_MAX);
        memcpy(attrs[count], event.attrs, event.attrs_bytes);
        event.attrs = attrs[count];
        events[count++] = event;
    }
    base_check(count == block.count);
    struct wire_event_block_head head;
    base_check(wire_event_block_head(bytes, size, &head) == BASE_OK);
    base_check(head.count == count);
    base_check(head.first_seq == events[0].seq);
    base_check(head.wall_ms == events[0].wall_ms);
    size_t again_size = 0;
    status = wire_event_block_encode(&(struct wire_event_list){events, count, block.boot}, again,
                                     sizeof(again), &again_size);
    base_check(status == BASE_OK);
    base_check(wire_event_block_parse(again, again_size, &block) == BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        base_check(wire_event_block_next(&block, &event));
        base_check(event.seq == events[i].seq);
        base_check(event.wall_ms == events[i].wall_ms);
        base_check(event.mono_us == events[i].mono_us);
        base_check(event.visit == events[i].visit);
        base_check(base_str_equal(event.page, events[i].page));
        base_check(event.attrs_bytes == events[i].attrs_bytes);
        wire_check_same(event.attrs, event.attrs_bytes, events[i].attrs, events[i].attrs_bytes);
    }
    return BASE_OK;
}

#endif
