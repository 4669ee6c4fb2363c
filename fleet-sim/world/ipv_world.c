// The generator behind ipv_world.h: a device is a stack of open pages, and each call lets one of
// them do one thing. Called by behaviour/user_session.c on a shard's thread, by the workers of
// bench/ipv, bench/store_worker.c and the tests; one thread per device. Everything is drawn from
// the device's own generator of random numbers, so nothing is shared between devices and the order
// of calls for others does not matter.
#include "ipv_world.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VIEWPORT_PX 2100
#define START_MS    1770000000000ull

// Probabilities are one in so many.
#define ODDS_NESTED  90  // of an action to open a related item above this page
#define ODDS_BELOW   12  // of an event to come from the page below
#define ODDS_KILL    700 // of an event to be the app's last
#define ODDS_REENTER 900
#define ODDS_ORPHAN  40 // of a session to begin with an exit nobody entered
#define ODDS_CLOCK   30 // of a session to begin with a step of the wall clock
#define ODDS_BOOT    15

static const char *const MODELS[] = {"ELE-AL00", "V2218A", "PGEM10", "22081212C", "SM-G9980"};
static const char *const BRANDS[] = {"HUAWEI", "vivo", "OPPO", "Xiaomi", "samsung"};
static const char *const CITIES[] = {"330100", "310000", "110000", "440100", "510100"};
static const char *const CARRIERS[] = {"46000", "46001", "46011", "46015"};
static const char *const NETS[] = {"wifi", "5g", "4g", "weak"};
static const char *const SOURCES[] = {"search", "recommend", "cart", "live", "message"};
static const char *const QUERIES[] = {"running shoes men", "连衣裙 夏", "usb c charger 65w",
                                      "帐篷 户外 防雨", "mechanical keyboard"};
static const char *const TARGETS[] = {"favourite", "cart",    "share", "review",
                                      "buy",       "gallery", "sku",   "coupon"};

#define PICK(device, table)                                                                        \
    ((table)[base_prng_below(&(device)->prng, sizeof(table) / sizeof((table)[0]))])

static uint64_t below(struct ipv_device *device, uint64_t bound)
{
    return base_prng_below(&device->prng, bound);
}

static bool one_in(struct ipv_device *device, uint64_t odds)
{
    return below(device, odds) == 0;
}

// Random text of an alphabet, NUL behind it.
static void scribble(struct ipv_device *device, char *out, size_t size, const char *alphabet)
{
    size_t letters = strlen(alphabet);
    for (size_t i = 0; i < size; i++) {
        out[i] = alphabet[below(device, letters)];
    }
    out[size] = '\0';
}

static void item_draw(struct ipv_device *device, char out[IPV_ITEM_BYTES + 1])
{
    // A few items are looked at by everyone.
    uint64_t tail = one_in(device, 3) ? below(device, 2000) : below(device, 100000000);
    (void)snprintf(out, IPV_ITEM_BYTES + 1, "%013" PRIu64, 6180000000000u + tail * 6967);
}

static void session_begin(struct ipv_device *device)
{
    struct ipv_shopper *who = &device->who;
    scribble(device, who->session, 32, "0123456789abcdef");
    (void)snprintf(who->ip, sizeof(who->ip), "100.%u.%u.%u", (unsigned)below(device, 200),
                   (unsigned)below(device, 250), (unsigned)below(device, 250));
    who->net = PICK(device, NETS);
    uint64_t pause_ms = 60000 + below(device, 6 * 3600 * 1000);
    device->wall_ms += pause_ms;
    device->mono_us += pause_ms * 1000;
    if (one_in(device, ODDS_CLOCK)) {
        device->wall_ms -= below(device, 3600 * 1000);
    }
    if (one_in(device, ODDS_BOOT)) {
        device->boot++;
        device->mono_us = 20000000 + below(device, 1000000);
    }
}

void ipv_device_init(struct ipv_device *device, uint64_t seed, uint64_t index, uint32_t sessions)
{
    *device = (struct ipv_device){.sessions_left = sessions, .boot = 1};
    base_prng_seed(&device->prng, base_mix64(seed) ^ base_mix64(index + 1));
    device->id = base_prng_next(&device->prng);
    device->secret = base_prng_next(&device->prng);
    device->wall_ms = START_MS + below(device, 86400000);
    device->mono_us = below(device, 3600000000);
    struct ipv_shopper *who = &device->who;
    scribble(device, who->utdid, 22,
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    memcpy(who->utdid + 22, "==", 3);
    scribble(device, who->user, 12, "0123456789");
    (void)snprintf(who->buckets, sizeof(who->buckets), "ab:%u_%u,%u_%u,%u_%u",
                   (unsigned)below(device, 9000), (unsigned)below(device, 8),
                   (unsigned)below(device, 9000), (unsigned)below(device, 8),
                   (unsigned)below(device, 9000), (unsigned)below(device, 8));
    uint64_t model = below(device, 5);
    who->model = MODELS[model];
    who->brand = BRANDS[model];
    who->os_version = one_in(device, 2) ? "12" : "13";
    who->screen = one_in(device, 2) ? "1080x2400" : "1440x3200";
    who->city = PICK(device, CITIES);
    who->carrier = PICK(device, CARRIERS);
    who->app = one_in(device, 3) ? "10.31.0" : "10.32.10";
    who->channel = one_in(device, 2) ? "600000@shop_android" : "701287@shop_android";
}

// ---- Attributes

static void say(struct ipv_device *device, const char *name, const char *text)
{
    base_check(device->attr_count < IPV_ATTRS_MAX);
    device->attrs[device->attr_count++] = (struct dev_event_attr){
        .name = base_str_of(name), .type = DEV_ATTR_STRING, .text = base_str_of(text)};
}

static void count(struct ipv_device *device, const char *name, int64_t value)
{
    base_check(device->attr_count < IPV_ATTRS_MAX);
    device->attrs[device->attr_count++] = (struct dev_event_attr){
        .name = base_str_of(name), .type = DEV_ATTR_INTEGER, .integer = value};
}

static void say_where(struct ipv_device *device, const struct ipv_page *page)
{
    const struct ipv_shopper *who = &device->who;
    say(device, "app", who->app);
    say(device, "channel", who->channel);
    say(device, "os", "android");
    say(device, "os_version", who->os_version);
    say(device, "brand", who->brand);
    say(device, "model", who->model);
    say(device, "screen", who->screen);
    say(device, "language", "zh_CN");
    say(device, "net", who->net);
    say(device, "carrier", who->carrier);
    say(device, "ip", who->ip);
    say(device, "city", who->city);
    say(device, "utdid", who->utdid);
    say(device, "user", who->user);
    say(device, "session", who->session);
    say(device, "experiments", who->buckets);
    say(device, "sdk", "6.5.11.22");
    say(device, "view", page->view);
    say(device, "url", page->url);
    say(device, "spm", page->spm);
    say(device, "scm", page->scm);
    say(device, "from_url", page->from_url);
    say(device, "from_spm", page->from_spm);
    device->attrs[device->attr_count++] =
        (struct dev_event_attr){.name = BASE_STR("density"), .type = DEV_ATTR_REAL, .real = 2.75};
    device->attrs[device->attr_count++] = (struct dev_event_attr){
        .name = BASE_STR("foreground"), .type = DEV_ATTR_BOOLEAN, .integer = 1};
}

static void emit(struct ipv_device *device, const struct ipv_page *page, enum dev_event_kind kind,
                 const char *name, struct dev_event *out)
{
    say_where(device, page);
    size_t size = 0;
    enum base_status status = dev_event_attrs_encode(
        device->attrs, device->attr_count, device->encoded, sizeof(device->encoded), &size);
    base_check(status == BASE_OK);
    *out = (struct dev_event){
        .seq = ++device->seq,
        .wall_ms = device->wall_ms,
        .mono_us = device->mono_us,
        .boot = device->boot,
        .visit = page->visit,
        .instance = page->instance,
        .kind = kind,
        .name = base_str_of(name),
        .page = page->is_detail ? BASE_STR(IPV_PAGE) : BASE_STR("item_list"),
        .item = base_str_of(page->item),
        .attrs = device->encoded,
        .attrs_bytes = (uint32_t)size,
        .attr_count = device->attr_count,
    };
    out->name_hash = dev_event_hash(device->secret, out->name);
    out->page_hash = dev_event_hash(device->secret, out->page);
    out->item_hash = dev_event_hash(device->secret, out->item);
}

// ---- Pages

static void page_fill(struct ipv_device *device, struct ipv_page *page, const struct ipv_page *from)
{
    (void)snprintf(page->category, sizeof(page->category), "5001%04u",
                   (unsigned)below(device, 400));
    (void)snprintf(page->shop, sizeof(page->shop), "%u", 10000000 + (unsigned)below(device, 90000));
    page->price_cents = 900 + (int64_t)below(device, 200000);
    scribble(device, page->view, 32, "0123456789abcdef");
    (void)snprintf(page->spm, sizeof(page->spm), "a2141.%u.0.0.%08x",
                   page->is_detail ? 7631564u : 8147851u, (unsigned)below(device, UINT32_MAX));
    (void)snprintf(page->scm, sizeof(page->scm), "1007.%u.%u.0.%.12s",
                   13000 + (unsigned)below(device, 80), 100000 + (unsigned)below(device, 900),
                   page->view);
    (void)snprintf(page->url, sizeof(page->url),
                   "https://shop.example/%s?id=%s&category=%s&shop=%s&spm=%s&scm=%s&view=%.22s",
                   page->is_detail ? "item" : "list", page->item, page->category, page->shop,
                   page->spm, page->scm, page->view);
    (void)snprintf(page->from_url, sizeof(page->from_url),
                   "https://shop.example/%s?id=%s&spm=%s&list=%.20s",
                   from == NULL      ? "home"
                   : from->is_detail ? "item"
                                     : "list",
                   from == NULL ? "" : from->item, from == NULL ? "a2141.1.0.0" : from->spm,
                   device->who.session);
    (void)snprintf(page->from_spm, sizeof(page->from_spm), "%s",
                   from == NULL ? "a2141.1.0.0" : from->spm);
}

static uint32_t actions_draw(struct ipv_device *device)
{
    uint64_t shape = below(device, 100);
    if (shape < 19) {
        return 3 + (uint32_t)below(device, 6);
    }
    if (shape < 86) {
        return 8 + (uint32_t)below(device, 17);
    }
    return 26 + (uint32_t)below(device, 32);
}

static struct ipv_page *page_push(struct ipv_device *device, bool is_detail, const char *item)
{
    const struct ipv_page *from = device->open > 0 ? &device->pages[device->open - 1] : NULL;
    struct ipv_page *page = &device->pages[device->open++];
    *page = (struct ipv_page){.is_detail = is_detail, .instance = ++device->instances};
    page->left = is_detail ? actions_draw(device) : 1 + (uint32_t)below(device, 3);
    page->opens = is_detail ? 0 : 1 + (uint32_t)below(device, 5);
    page->height_px = 4000 + (int32_t)below(device, 9000);
    if (item != NULL) {
        memcpy(page->item, item, sizeof(page->item));
    }
    page->source = from != NULL && from->is_detail ? "related" : PICK(device, SOURCES);
    page->query = strcmp(page->source, "search") == 0 ? PICK(device, QUERIES) : "";
    page_fill(device, page, from);
    return page;
}

static void emit_enter(struct ipv_device *device, struct ipv_page *page, struct dev_event *out)
{
    page->visit = ++device->visits;
    page->at_px = 0;
    page->shown = 0;
    if (page->is_detail) {
        say(device, "category", page->category);
        say(device, "shop", page->shop);
        count(device, "price_cents", page->price_cents);
        say(device, "source", page->source);
        say(device, "query", page->query);
    }
    emit(device, page, DEV_EVENT_ENTER, "", out);
}

// ---- What shoppers do

static void emit_scroll(struct ipv_device *device, struct ipv_page *page, struct dev_event *out)
{
    int32_t room = page->height_px - VIEWPORT_PX - page->at_px;
    bool back = page->at_px > 0 && (room <= 0 || one_in(device, 5));
    int32_t by = 120 + (int32_t)below(device, 1700);
    by = back ? -(by < page->at_px ? by : page->at_px) : (by < room ? by : room);
    page->at_px += by;
    count(device, "dy", by);
    count(device, "y", page->at_px);
    count(device, "depth", (int64_t)(page->at_px + VIEWPORT_PX) * 100 / page->height_px);
    count(device, "took_ms", 80 + (int64_t)below(device, 900));
    emit(device, page, DEV_EVENT_SCROLL, "", out);
}

static void emit_exposure(struct ipv_device *device, struct ipv_page *page, struct dev_event *out)
{
    uint32_t position = page->shown;
    if (position == IPV_SHOWN_MAX || (position > 0 && one_in(device, 8))) {
        position = (uint32_t)below(device, page->shown); // seen before
    } else {
        item_draw(device, page->items[position]);
        page->shown++;
    }
    say(device, "target_item", page->items[position]);
    count(device, "position", position);
    count(device, "visible_ms", 100 + (int64_t)below(device, 5000));
    count(device, "ratio_pct", 50 + (int64_t)below(device, 51));
    say(device, "reason", one_in(device, 2) ? "similar" : "bought_together");
    emit(device, page, DEV_EVENT_EXPOSURE, "", out);
}

// A press; true: it was on a related item, which opens next.
static bool emit_click(struct ipv_device *device, struct ipv_page *page, bool related,
                       struct dev_event *out)
{
    if (related) {
        uint32_t position = (uint32_t)below(device, page->shown);
        say(device, "target", "related");
        say(device, "target_item", page->items[position]);
        count(device, "position", position);
    } else {
        // Half of the presses are of the kinds that cost nothing.
        say(device, "target",
            one_in(device, 2) ? TARGETS[5 + below(device, 3)] : TARGETS[below(device, 5)]);
    }
    count(device, "x", (int64_t)below(device, 1080));
    count(device, "y", (int64_t)below(device, 2400));
    emit(device, page, DEV_EVENT_CLICK, "", out);
    return related;
}

static void wait_a_little(struct ipv_device *device)
{
    uint64_t ms = 120ull << below(device, 6);
    ms += below(device, ms);
    if (one_in(device, 60)) {
        ms += 10000 + below(device, 90000); // looked away
    }
    device->wall_ms += ms;
    device->mono_us += ms * 1000 + below(device, 1000);
}

static void act(struct ipv_device *device, struct ipv_page *page, struct dev_event *out)
{
    uint64_t what = below(device, 100);
    bool top = page == &device->pages[device->open - 1];
    if (page->is_detail && top && page->shown > 0 && device->open < IPV_OPEN_MAX &&
        one_in(device, ODDS_NESTED)) {
        (void)emit_click(device, page, true, out);
        return;
    }
    if (what < 38) {
        emit_scroll(device, page, out);
    } else if (what < 78) {
        emit_exposure(device, page, out);
    } else if (what < 93) {
        (void)emit_click(device, page, false, out);
    } else {
        count(device, "took_ms", (int64_t)below(device, 1500));
        say(device, "stage", one_in(device, 2) ? "first_frame" : "interactive");
        emit(device, page, DEV_EVENT_CUSTOM, one_in(device, 2) ? "video.play" : "page.perf", out);
    }
}

// A session begins: most often with a list of items.
static void session_first(struct ipv_device *device, struct dev_event *out)
{
    session_begin(device);
    device->sessions_left--;
    if (one_in(device, ODDS_ORPHAN)) {
        struct ipv_page *ghost = &device->pages[0]; // not open, but the event's texts lie there
        *ghost = (struct ipv_page){.is_detail = true, .instance = ++device->instances};
        item_draw(device, ghost->item);
        page_fill(device, ghost, NULL);
        emit(device, ghost, DEV_EVENT_EXIT, "", out);
        return;
    }
    emit_enter(device, page_push(device, false, NULL), out);
}

static bool was_related_click(const struct ipv_device *device)
{
    return device->attr_count > 0 && base_str_equal(device->attrs[0].name, BASE_STR("target")) &&
           base_str_equal(device->attrs[0].text, BASE_STR("related"));
}

// The page on top does its next thing: opens another, acts, or closes.
static void step(struct ipv_device *device, struct dev_event *out, bool opens_related,
                 const char *related)
{
    struct ipv_page *top = &device->pages[device->open - 1];
    if (opens_related && device->open < IPV_OPEN_MAX) {
        emit_enter(device, page_push(device, true, related), out);
        return;
    }
    if (device->open > 1 && one_in(device, ODDS_BELOW)) {
        act(device, top - 1, out);
        return;
    }
    if (one_in(device, ODDS_REENTER)) {
        emit_enter(device, top, out);
        return;
    }
    if (top->left > 0) {
        top->left--;
        act(device, top, out);
        return;
    }
    if (top->opens > 0) {
        char item[IPV_ITEM_BYTES + 1];
        top->opens--;
        item_draw(device, item);
        emit_enter(device, page_push(device, true, item), out);
        return;
    }
    emit(device, top, DEV_EVENT_EXIT, "", out);
    device->open--;
}

bool ipv_device_next(struct ipv_device *device, struct dev_event *out)
{
    bool opens = was_related_click(device);
    char related[IPV_ITEM_BYTES + 1] = "";
    if (opens) {
        memcpy(related, device->attrs[1].text.data, IPV_ITEM_BYTES);
    }
    device->attr_count = 0;
    if (device->open > 0 && one_in(device, ODDS_KILL)) {
        device->open = 0; // no exit will come
    }
    if (device->open > 0) {
        wait_a_little(device);
        step(device, out, opens, related);
        return true;
    }
    if (device->sessions_left == 0) {
        return false;
    }
    session_first(device, out);
    return true;
}
