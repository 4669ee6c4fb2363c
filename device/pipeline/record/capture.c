// What live tasks need of events. Filled by the runtime when the set of tasks changes and asked by
// the recorder for each event, both on the runtime's thread; the gate's words are copied from here
// to where other threads read them (recorder_ring.c).
#include "pipeline/record/capture.h"

#include "wire/event_attrs.h"

#include "base/check.h"

#include <string.h>

#define ROWS       (2u * DEV_CAPTURE_NEEDS_MAX)
#define ATTR_SLOTS (2u * DEV_CAPTURE_ATTRS_MAX)

// Keyed hashes come in, so nobody chooses keys that collide.
static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= 0x9e3779b97f4a7c15u;
    value ^= value >> 29;
    return value;
}

static uint64_t row_key(enum dev_event_kind kind, uint64_t page_hash, uint64_t name_hash)
{
    uint64_t key = mix(page_hash + (uint64_t)kind) ^ mix(name_hash ^ 0xd1b54a32d192ed03u);
    return key != 0 ? key : 1;
}

uint32_t dev_capture_gate_bit(enum dev_event_kind kind, uint64_t page_hash)
{
    return (uint32_t)(mix(page_hash + (uint64_t)kind) % DEV_CAPTURE_GATE_BITS);
}

void dev_capture_begin(struct dev_capture *capture, uint64_t secret)
{
    memset(capture, 0, sizeof(*capture));
    capture->secret = secret;
    const uint32_t always = 1u << DEV_EVENT_ENTER | 1u << DEV_EVENT_EXIT;
    capture->gate.kinds = always;
    capture->any[DEV_EVENT_ENTER].wanted = true;
    capture->any[DEV_EVENT_EXIT].wanted = true;
}

// ---- Attribute names

// Index of the name; attr_count when it is not there; *out_slot is where it is or would be.
static uint32_t attr_find(const struct dev_capture *capture, uint64_t hash, uint32_t *out_slot)
{
    uint32_t slot = (uint32_t)(mix(hash) % ATTR_SLOTS);
    while (capture->attr_slots[slot] != 0 &&
           capture->attrs[capture->attr_slots[slot] - 1] != hash) {
        slot = (slot + 1) % ATTR_SLOTS;
    }
    *out_slot = slot;
    return capture->attr_slots[slot] != 0 ? capture->attr_slots[slot] - 1u : capture->attr_count;
}

static void attr_add(struct dev_capture *capture, struct base_str name, struct dev_capture_set *set)
{
    uint32_t slot = 0;
    uint64_t hash = dev_event_hash(capture->secret, name);
    uint32_t index = attr_find(capture, hash, &slot);
    if (index == capture->attr_count) {
        if (capture->attr_count == DEV_CAPTURE_ATTRS_MAX) {
            set->every_attr = true;
            capture->widened++;
            return;
        }
        capture->attrs[capture->attr_count++] = hash;
        capture->attr_slots[slot] = (uint8_t)capture->attr_count;
    }
    uint32_t bit = dev_event_mark(name);
    capture->gate.names[bit / 64] |= 1ull << bit % 64;
    set->bits[index / 64] |= 1ull << index % 64;
}

bool dev_capture_wants_attr(const struct dev_capture *capture, const struct dev_capture_set *set,
                            struct base_str name)
{
    if (set->every_attr) {
        return true;
    }
    uint32_t slot = 0;
    uint32_t index = attr_find(capture, dev_event_hash(capture->secret, name), &slot);
    return index < capture->attr_count && (set->bits[index / 64] >> index % 64 & 1) != 0;
}

// ---- Needs

static void unite(struct dev_capture_set *set, const struct dev_capture_set *with)
{
    for (unsigned i = 0; i < DEV_CAPTURE_ATTRS_MAX / 64; i++) {
        set->bits[i] |= with->bits[i];
    }
    set->wanted = set->wanted || with->wanted;
    set->every_attr = set->every_attr || with->every_attr;
}

// The row of the key, or the free one where it would be. At most half of the rows are in use.
static uint32_t row_find(const struct dev_capture *capture, uint64_t key)
{
    uint32_t at = (uint32_t)(key % ROWS);
    while (capture->rows[at].key != 0 && capture->rows[at].key != key) {
        at = (at + 1) % ROWS;
    }
    return at;
}

static void add_kind(struct dev_capture *capture, enum dev_event_kind kind, uint64_t page_hash,
                     uint64_t name_hash, const struct dev_capture_set *set)
{
    base_assert(kind >= DEV_EVENT_ENTER && kind < DEV_EVENT_KIND_END && set->wanted);
    base_assert(capture->row_count <= DEV_CAPTURE_NEEDS_MAX);
    uint64_t key = row_key(kind, page_hash, name_hash);
    struct dev_capture_row *row = &capture->rows[row_find(capture, key)];
    bool everywhere = page_hash == 0 && name_hash == 0;
    bool full = row->key == 0 && capture->row_count == DEV_CAPTURE_NEEDS_MAX;
    if (everywhere || full) {
        capture->widened += full && !everywhere ? 1 : 0;
        capture->gate.kinds |= 1u << kind;
        unite(&capture->any[kind], set);
        return;
    }
    capture->row_count += row->key == 0 ? 1 : 0;
    row->key = key;
    unite(&row->set, set);
    if (page_hash == 0) {
        capture->gate.kinds |= 1u << kind;
        return;
    }
    uint32_t bit = dev_capture_gate_bit(kind, page_hash);
    capture->gate.pages[bit / 64] |= 1ull << bit % 64;
}

enum base_status dev_capture_add(struct dev_capture *capture, const struct dev_capture_need *need)
{
    const uint32_t kinds_all = (1u << DEV_EVENT_KIND_END) - (1u << DEV_EVENT_ENTER);
    bool named = need->name.size > 0;
    if (need->kinds == 0 || (need->kinds & ~kinds_all) != 0 ||
        need->page.size > DEV_EVENT_PAGE_MAX ||
        (named && (need->kinds != 1u << DEV_EVENT_CUSTOM || !wire_event_name_ok(need->name)))) {
        return BASE_ERR_INVALID;
    }
    for (uint32_t i = 0; i < need->attr_count; i++) {
        if (!wire_event_name_ok(need->attrs[i])) {
            return BASE_ERR_INVALID;
        }
    }
    // Tables are half empty, so probing ends.
    base_assert(capture->attr_count <= DEV_CAPTURE_ATTRS_MAX);
    base_assert(capture->row_count <= DEV_CAPTURE_NEEDS_MAX);
    struct dev_capture_set set = {.wanted = true, .every_attr = need->every_attr};
    for (uint32_t i = 0; i < need->attr_count; i++) {
        attr_add(capture, need->attrs[i], &set);
    }
    capture->gate.every_attr = capture->gate.every_attr || set.every_attr;
    uint64_t page_hash = dev_event_hash(capture->secret, need->page);
    uint64_t name_hash = dev_event_hash(capture->secret, need->name);
    for (unsigned kind = DEV_EVENT_ENTER; kind < DEV_EVENT_KIND_END; kind++) {
        if ((need->kinds >> kind & 1) != 0) {
            add_kind(capture, (enum dev_event_kind)kind, page_hash, name_hash, &set);
        }
    }
    return BASE_OK;
}

void dev_capture_find(const struct dev_capture *capture, enum dev_event_kind kind,
                      uint64_t page_hash, uint64_t name_hash, struct dev_capture_set *out)
{
    base_assert(kind >= DEV_EVENT_ENTER && kind < DEV_EVENT_KIND_END);
    const uint64_t keys[3] = {
        row_key(kind, page_hash, 0),
        row_key(kind, page_hash, name_hash),
        row_key(kind, 0, name_hash),
    };
    *out = capture->any[kind];
    for (unsigned i = 0; i < (name_hash != 0 ? 3 : 1); i++) {
        const struct dev_capture_row *row = &capture->rows[row_find(capture, keys[i])];
        if (row->key != 0) {
            unite(out, &row->set);
        }
    }
}
