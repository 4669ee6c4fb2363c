// The item-page-view feature: everything one visit of an item's page says about the shopper and
// the item, as one row of JSON of about 1.3 KB. It is added up event by event, and complete with
// the visit's EXIT. Only whole numbers, so that two implementations can be compared byte by byte.
//
//   {"v":1, "item", "category", "shop", "price_cents", "source", "query", "app", "net", "from",
//    "enter_seq", "enter_ms", "hour"      when the page opened, by the device's clock; hour in UTC
//    "events", "dwell_ms", "active_ms"    active: gaps between events count IPV_IDLE_MS at most
//    "gaps": [IPV_GAPS]                   histogram of gaps: below 128 ms, 256 ms, ... the rest
//    "scroll": {"n", "max_pct", "end_pct", "down_px", "up_px", "turns", "fastest"}   px per second
//    "stay_ms": [10]                      time by tenth of the page the shopper had come to
//    "exposure": {"n", "distinct", "seen_ms", "max_position", "items": [{"id", "position", "at_ms",
//                 "visible_ms", "shows", "clicks"}]}              the first IPV_ITEMS_OUT items
//                 that came into view
//    "actions": {"favourite": [n, first after ms], "cart", "share", "review", "buy"}
//    "clicks": [["target", after ms]]     the last IPV_CLICKS
//    "zones": [9]                         presses by third of the screen, left to right, top down
//    "perf_ms": [n, sum]                  custom events with took_ms
//    "sequence": "esxc..."}               kinds of the first IPV_SEQUENCE events
//
// Texts are cut to IPV_TEXT bytes, between characters. A gap counts for the tenth of the page the
// shopper had come to before it. Numbers an event does not give are 0.
//
// State is one struct in the caller's memory; no allocation. Texts are copied, cut to their fields.
#ifndef IPV_FEATURE_H
#define IPV_FEATURE_H

#include "ipv_world.h"
#include "pipeline/record/event.h"

#define IPV_IDLE_MS      10000
#define IPV_GAPS         10
#define IPV_STAYS        10
#define IPV_ITEMS_MAX    64 // items whose exposures are told apart
#define IPV_ITEMS_OUT    16
#define IPV_CLICKS       6
#define IPV_SEQUENCE     48
#define IPV_ACTIONS      5
#define IPV_ZONES        9
#define IPV_SCREEN_X     1080 // presses are given in pixels of such a screen
#define IPV_SCREEN_Y     2400
#define IPV_TEXT         24
#define IPV_FEATURE_MAX  4096 // bytes of JSON at most
#define IPV_ENCODING     32   // float32 values: 128 bytes
#define IPV_STEPS        32   // events the recurrent model sees: the last ones
#define IPV_STEP_WIDTH   16   // numbers per event
#define IPV_ENCODED_SIZE (IPV_ENCODING * 4)

struct ipv_text {
    uint8_t size;
    char bytes[IPV_TEXT];
};

struct ipv_seen {
    struct ipv_text id;
    uint32_t position; // where it first was
    uint64_t at_ms;    // when, after the page opened
    uint32_t shows;
    uint32_t clicks;
    uint64_t seen_ms;
};

struct ipv_press {
    struct ipv_text target;
    uint64_t after_ms;
};

struct ipv_feature {
    struct ipv_text item, category, shop, source, query, app, net, from;
    int64_t price_cents;
    uint64_t enter_seq, enter_ms, enter_us, last_us;
    uint64_t active_ms;
    uint32_t events;
    uint32_t gaps[IPV_GAPS];
    uint32_t scrolls, turns;
    int32_t direction;
    int64_t depth, max_depth, down_px, up_px, fastest;
    uint64_t stay_ms[IPV_STAYS];
    uint32_t shows, seen_count;
    int64_t max_position;
    uint64_t seen_ms;
    struct ipv_seen seen[IPV_ITEMS_MAX];
    uint32_t actions[IPV_ACTIONS];
    uint64_t action_ms[IPV_ACTIONS];
    uint32_t zones[IPV_ZONES];
    uint32_t presses;
    struct ipv_press last[IPV_CLICKS]; // ring
    uint32_t perfs;
    int64_t perf_ms;
    char sequence[IPV_SEQUENCE];
    float steps[IPV_STEPS][IPV_STEP_WIDTH]; // ring of what the encoder sees
};

// Names of the attributes it reads.
#define IPV_FEATURE_ATTRS 17
extern const struct base_str ipv_feature_attrs[IPV_FEATURE_ATTRS];

// `enter` is the ENTER of the visit.
void ipv_feature_begin(struct ipv_feature *feature, const struct dev_event *enter);
// The visit's next event by seq, EXIT included.
void ipv_feature_add(struct ipv_feature *feature, const struct dev_event *event);
// JSON of a complete visit, without newline; its size. 0: more than `capacity`.
size_t ipv_feature_json(const struct ipv_feature *feature, char *out, size_t capacity);
// The input of the recurrent model: the last IPV_STEPS events in order, zeros before the first.
void ipv_feature_steps(const struct ipv_feature *feature, float out[IPV_STEPS][IPV_STEP_WIDTH]);

#endif
