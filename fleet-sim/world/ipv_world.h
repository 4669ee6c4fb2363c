// Behaviour logs of made-up shoppers: who opened which item's page from where, how far they
// scrolled, what came into view, what they pressed. Everything is drawn from a seed.
//
// What is calibrated: about 19.3 events a visit of an item's page and about 21 KB of raw JSON for
// them, the figures published for the original system. The rest is made up, but with the awkward
// parts real logs have: item pages opened from item pages (visits nest), events of the page below,
// a page entered again without an exit, an exit without an enter, an app that is killed in the
// middle, a wall clock that steps, a device that boots.
//
// Used by walle-fleet-sim (--behaviour ipv), the worked example in bench/ipv and tests.
//
// A device belongs to one thread; what an event points to is valid until the device's next event.
#ifndef IPV_WORLD_H
#define IPV_WORLD_H

#include "base/prng.h"
#include "pipeline/record/event.h"

#define IPV_PAGE         "item_detail" // the page that visits of items are of
#define IPV_ATTRS_MAX    48
#define IPV_OPEN_MAX     4  // pages open one above the other
#define IPV_SHOWN_MAX    48 // related items on a page
#define IPV_ITEM_BYTES   13
#define IPV_RAW_LINE_MAX 4096 // of one event as JSON

struct ipv_page {
    bool is_detail;
    uint32_t instance;
    uint32_t visit; // 0: it was left in a way that ends the visit
    uint32_t left;  // events until it closes
    uint32_t opens; // pages a list still opens
    int32_t height_px;
    int32_t at_px;
    uint32_t shown;
    char items[IPV_SHOWN_MAX][IPV_ITEM_BYTES + 1]; // related items, by position
    char item[IPV_ITEM_BYTES + 1];
    char category[12], shop[12], view[40], url[240], spm[48], scm[80], from_url[200], from_spm[48];
    const char *source;
    const char *query;
    int64_t price_cents;
};

// What the app does not say per event: who and where it is.
struct ipv_shopper {
    char utdid[28], user[16], session[40], ip[16], buckets[64];
    const char *model, *brand, *os_version, *screen, *city, *carrier, *net, *app, *channel;
};

struct ipv_device {
    struct base_prng prng;
    uint64_t id;
    uint64_t secret; // of dev_event_hash
    uint64_t seq;
    uint64_t wall_ms, mono_us;
    uint32_t boot, instances, visits;
    uint32_t sessions_left;
    struct ipv_shopper who;
    struct ipv_page pages[IPV_OPEN_MAX];
    uint32_t open;
    struct dev_event_attr attrs[IPV_ATTRS_MAX];
    uint32_t attr_count;
    uint8_t encoded[DEV_EVENT_ATTRS_BYTES];
};

// `index` names the device within the seed's world.
void ipv_device_init(struct ipv_device *device, uint64_t seed, uint64_t index, uint32_t sessions);
// The device's next event, with visits as a recorder has to number them; false: no more. Its
// attributes are also there unencoded, in device->attrs.
bool ipv_device_next(struct ipv_device *device, struct dev_event *out);

// One event as an app's logging library sends it: a line of JSON without the newline. The number
// of bytes; 0 when `capacity` is too small.
size_t ipv_raw_json(uint64_t device, const struct dev_event *event, char *out, size_t capacity);

#endif
