// Adds up one visit's events. Called on the device core for each event of an item page, by
// ipv_worker and the tests; no state outside the struct.
#include "ipv_feature.h"

#include "base/text/str_cut.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const ACTION_NAMES[IPV_ACTIONS] = {"favourite", "cart", "share", "review",
                                                      "buy"};
const struct base_str ipv_feature_attrs[IPV_FEATURE_ATTRS] = {
    {"app", 3},    {"category", 8}, {"depth", 5},        {"dy", 2},      {"from_spm", 8},
    {"net", 3},    {"position", 8}, {"price_cents", 11}, {"query", 5},   {"shop", 4},
    {"source", 6}, {"target", 6},   {"target_item", 11}, {"took_ms", 7}, {"visible_ms", 10},
    {"x", 1},      {"y", 1}};
static const char KIND_LETTERS[DEV_EVENT_KIND_END + 1] = "?esxcqu";

// What an event's attributes say; absent numbers are 0.
struct said {
    struct base_str category, shop, source, query, app, net, from_spm, target, target_item;
    int64_t price_cents, dy, depth, took_ms, position, visible_ms, x, y;
};

struct said_field {
    struct base_str name;
    size_t at;
};

#define FIELD(field)                                                                               \
    {                                                                                              \
        {#field, sizeof(#field) - 1}, offsetof(struct said, field)                                 \
    }
static const struct said_field TEXT_FIELDS[] = {
    FIELD(category), FIELD(shop),   FIELD(source),      FIELD(query),   FIELD(app),
    FIELD(net),      FIELD(target), FIELD(target_item), FIELD(from_spm)};
static const struct said_field NUMBER_FIELDS[] = {
    FIELD(price_cents), FIELD(dy),         FIELD(depth), FIELD(took_ms),
    FIELD(position),    FIELD(visible_ms), FIELD(x),     FIELD(y)};

static void *field_find(struct said *said, const struct said_field *fields, size_t count,
                        struct base_str name)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name.size == name.size && fields[i].name.data[0] == name.data[0] &&
            memcmp(fields[i].name.data, name.data, name.size) == 0) {
            return (char *)said + fields[i].at;
        }
    }
    return NULL;
}

static void listen(const struct dev_event *event, struct said *out)
{
    *out = (struct said){0};
    uint32_t cursor = 0;
    struct dev_event_attr attr;
    while (dev_event_attr_next(event, &cursor, &attr)) {
        if (attr.type == DEV_ATTR_STRING) {
            struct base_str *text = field_find(
                out, TEXT_FIELDS, sizeof(TEXT_FIELDS) / sizeof(TEXT_FIELDS[0]), attr.name);
            if (text != NULL) {
                *text = attr.text;
            }
        } else if (attr.type == DEV_ATTR_INTEGER) {
            int64_t *number = field_find(
                out, NUMBER_FIELDS, sizeof(NUMBER_FIELDS) / sizeof(NUMBER_FIELDS[0]), attr.name);
            if (number != NULL) {
                *number = attr.integer;
            }
        }
    }
}

static void keep(struct ipv_text *field, struct base_str text)
{
    field->size = (uint8_t)base_str_fit(text, IPV_TEXT);
    if (field->size > 0) {
        memcpy(field->bytes, text.data, field->size);
    }
}

// ---- Parts of the row

static void add_time(struct ipv_feature *feature, const struct dev_event *event)
{
    uint64_t gap = event->mono_us > feature->last_us ? event->mono_us - feature->last_us : 0;
    gap /= 1000;
    feature->last_us = event->mono_us;
    feature->active_ms += gap < IPV_IDLE_MS ? gap : IPV_IDLE_MS;
    uint32_t bin = 0;
    while (bin < IPV_GAPS - 1 && gap >= (128ull << bin)) {
        bin++;
    }
    feature->gaps[bin]++;
    int64_t tenth = feature->depth / 10;
    tenth = tenth < 0 ? 0 : tenth < IPV_STAYS ? tenth : IPV_STAYS - 1;
    feature->stay_ms[tenth] += gap;
}

static void add_scroll(struct ipv_feature *feature, const struct said *said)
{
    int64_t length = said->dy < 0 ? -said->dy : said->dy;
    int32_t direction = said->dy < 0 ? -1 : 1;
    feature->scrolls++;
    feature->turns += feature->direction == -direction;
    feature->direction = direction;
    *(direction < 0 ? &feature->up_px : &feature->down_px) += length;
    feature->depth = said->depth;
    feature->max_depth = said->depth > feature->max_depth ? said->depth : feature->max_depth;
    int64_t speed = said->took_ms > 0 ? length * 1000 / said->took_ms : 0;
    feature->fastest = speed > feature->fastest ? speed : feature->fastest;
}

static struct ipv_seen *seen_find(struct ipv_feature *feature, struct base_str id)
{
    for (uint32_t i = 0; i < feature->seen_count; i++) {
        struct ipv_seen *seen = &feature->seen[i];
        if (seen->id.size == id.size && memcmp(seen->id.bytes, id.data, id.size) == 0) {
            return seen;
        }
    }
    return NULL;
}

static void add_exposure(struct ipv_feature *feature, const struct said *said, uint64_t after_ms)
{
    uint64_t visible = said->visible_ms > 0 ? (uint64_t)said->visible_ms : 0;
    feature->shows++;
    feature->seen_ms += visible;
    feature->max_position =
        said->position > feature->max_position ? said->position : feature->max_position;
    struct ipv_seen *seen = seen_find(feature, said->target_item);
    if (seen == NULL && feature->seen_count < IPV_ITEMS_MAX) {
        seen = &feature->seen[feature->seen_count++];
        *seen = (struct ipv_seen){.position = (uint32_t)said->position, .at_ms = after_ms};
        keep(&seen->id, said->target_item);
    }
    if (seen != NULL) {
        seen->shows++;
        seen->seen_ms += visible;
    }
}

static int64_t third(int64_t at, int64_t size)
{
    int64_t part = at * 3 / size;
    return part < 0 ? 0 : part > 2 ? 2 : part;
}

static void add_click(struct ipv_feature *feature, const struct said *said, uint64_t after_ms)
{
    for (uint32_t i = 0; i < IPV_ACTIONS; i++) {
        if (base_str_equal(said->target, base_str_of(ACTION_NAMES[i]))) {
            feature->action_ms[i] = feature->actions[i] == 0 ? after_ms : feature->action_ms[i];
            feature->actions[i]++;
        }
    }
    feature->zones[third(said->y, IPV_SCREEN_Y) * 3 + third(said->x, IPV_SCREEN_X)]++;
    struct ipv_press *press = &feature->last[feature->presses++ % IPV_CLICKS];
    keep(&press->target, said->target);
    press->after_ms = after_ms;
    struct ipv_seen *seen = seen_find(feature, said->target_item);
    if (seen != NULL) {
        seen->clicks++;
    }
}

// One event as the recurrent model sees it: what happened, after how long, and its main number.
static void add_step(struct ipv_feature *feature, const struct dev_event *event,
                     const struct said *said, uint64_t after_ms)
{
    float *step = feature->steps[feature->events % IPV_STEPS];
    memset(step, 0, sizeof(feature->steps[0]));
    step[event->kind - 1] = 1.0f;
    step[6] = (float)after_ms / 60000.0f;
    step[7] = (float)said->depth / 100.0f;
    step[8] = (float)said->dy / 2000.0f;
    step[9] = (float)said->position / 48.0f;
    step[10] = (float)said->visible_ms / 5000.0f;
    for (uint32_t i = 0; i < IPV_ACTIONS; i++) {
        step[11 + i] = base_str_equal(said->target, base_str_of(ACTION_NAMES[i])) ? 1.0f : 0.0f;
    }
}

static void add_any(struct ipv_feature *feature, const struct dev_event *event,
                    const struct said *said)
{
    uint64_t after_ms =
        event->mono_us > feature->enter_us ? (event->mono_us - feature->enter_us) / 1000 : 0;
    if (feature->events < IPV_SEQUENCE) {
        feature->sequence[feature->events] = KIND_LETTERS[event->kind];
    }
    if (event->kind == DEV_EVENT_SCROLL) {
        add_scroll(feature, said);
    } else if (event->kind == DEV_EVENT_EXPOSURE) {
        add_exposure(feature, said, after_ms);
    } else if (event->kind == DEV_EVENT_CLICK) {
        add_click(feature, said, after_ms);
    } else if (event->kind == DEV_EVENT_CUSTOM) {
        feature->perfs++;
        feature->perf_ms += said->took_ms;
    }
    add_step(feature, event, said, after_ms);
    feature->events++;
}

// ---- Life

void ipv_feature_begin(struct ipv_feature *feature, const struct dev_event *enter)
{
    struct said said;
    listen(enter, &said);
    // The long arrays are written before they are read.
    memset(feature, 0, offsetof(struct ipv_feature, seen));
    memset(feature->actions, 0,
           sizeof(*feature) - offsetof(struct ipv_feature, actions) - sizeof(feature->steps));
    keep(&feature->item, enter->item);
    keep(&feature->category, said.category);
    keep(&feature->shop, said.shop);
    keep(&feature->source, said.source);
    keep(&feature->query, said.query);
    keep(&feature->app, said.app);
    keep(&feature->net, said.net);
    keep(&feature->from, said.from_spm);
    feature->price_cents = said.price_cents;
    feature->enter_seq = enter->seq;
    feature->enter_ms = enter->wall_ms;
    feature->enter_us = enter->mono_us;
    feature->last_us = enter->mono_us;
    add_any(feature, enter, &said);
}

void ipv_feature_add(struct ipv_feature *feature, const struct dev_event *event)
{
    struct said said;
    listen(event, &said);
    add_time(feature, event);
    add_any(feature, event, &said);
}

void ipv_feature_steps(const struct ipv_feature *feature, float out[IPV_STEPS][IPV_STEP_WIDTH])
{
    uint32_t have = feature->events < IPV_STEPS ? feature->events : IPV_STEPS;
    memset(out, 0, sizeof(feature->steps));
    for (uint32_t i = 0; i < have; i++) {
        uint32_t from = (feature->events - have + i) % IPV_STEPS;
        memcpy(out[IPV_STEPS - have + i], feature->steps[from], sizeof(feature->steps[0]));
    }
}

// ---- JSON

struct sheet {
    char *at;
    char *end;
    bool full;
};

static void put(struct sheet *sheet, const void *bytes, size_t size)
{
    if (size > (size_t)(sheet->end - sheet->at)) {
        sheet->full = true;
        return;
    }
    memcpy(sheet->at, bytes, size);
    sheet->at += size;
}

#define PUT(sheet, literal) put(sheet, literal, sizeof(literal) - 1)

static void put_number(struct sheet *sheet, int64_t value)
{
    char digits[24];
    char *at = digits + sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        *--at = '-';
    }
    put(sheet, at, (size_t)(digits + sizeof(digits) - at));
}

static void put_text(struct sheet *sheet, const struct ipv_text *text)
{
    static const char hex[] = "0123456789abcdef";
    PUT(sheet, "\"");
    for (uint8_t i = 0; i < text->size; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        if (c < 0x20) {
            char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            put(sheet, escape, sizeof(escape));
            continue;
        }
        if (c == '"' || c == '\\') {
            PUT(sheet, "\\");
        }
        put(sheet, &text->bytes[i], 1);
    }
    PUT(sheet, "\"");
}

#define PUT_NUMBER(sheet, key, value)                                                              \
    (PUT(sheet, ",\"" key "\":"), put_number(sheet, (int64_t)(value)))
#define PUT_TEXT(sheet, key, value) (PUT(sheet, ",\"" key "\":"), put_text(sheet, value))

static void put_head(struct sheet *sheet, const struct ipv_feature *feature)
{
    PUT(sheet, "{\"v\":1");
    PUT_TEXT(sheet, "item", &feature->item);
    PUT_TEXT(sheet, "category", &feature->category);
    PUT_TEXT(sheet, "shop", &feature->shop);
    PUT_NUMBER(sheet, "price_cents", feature->price_cents);
    PUT_TEXT(sheet, "source", &feature->source);
    PUT_TEXT(sheet, "query", &feature->query);
    PUT_TEXT(sheet, "app", &feature->app);
    PUT_TEXT(sheet, "net", &feature->net);
    PUT_TEXT(sheet, "from", &feature->from);
    PUT_NUMBER(sheet, "enter_seq", feature->enter_seq);
    PUT_NUMBER(sheet, "enter_ms", feature->enter_ms);
    PUT_NUMBER(sheet, "hour", feature->enter_ms / 3600000 % 24);
    PUT_NUMBER(sheet, "events", feature->events);
    PUT_NUMBER(sheet, "dwell_ms", (feature->last_us - feature->enter_us) / 1000);
    PUT_NUMBER(sheet, "active_ms", feature->active_ms);
    PUT(sheet, ",\"gaps\":[");
    for (uint32_t i = 0; i < IPV_GAPS; i++) {
        put(sheet, ",", i > 0);
        put_number(sheet, feature->gaps[i]);
    }
    PUT(sheet, "],\"scroll\":{\"n\":");
    put_number(sheet, feature->scrolls);
    PUT_NUMBER(sheet, "max_pct", feature->max_depth);
    PUT_NUMBER(sheet, "end_pct", feature->depth);
    PUT_NUMBER(sheet, "down_px", feature->down_px);
    PUT_NUMBER(sheet, "up_px", feature->up_px);
    PUT_NUMBER(sheet, "turns", feature->turns);
    PUT_NUMBER(sheet, "fastest", feature->fastest);
    PUT(sheet, "},\"stay_ms\":[");
    for (uint32_t i = 0; i < IPV_STAYS; i++) {
        put(sheet, ",", i > 0);
        put_number(sheet, (int64_t)feature->stay_ms[i]);
    }
    PUT(sheet, "]");
}

static void put_exposure(struct sheet *sheet, const struct ipv_feature *feature)
{
    PUT(sheet, ",\"exposure\":{\"n\":");
    put_number(sheet, feature->shows);
    PUT_NUMBER(sheet, "distinct", feature->seen_count);
    PUT_NUMBER(sheet, "seen_ms", feature->seen_ms);
    PUT_NUMBER(sheet, "max_position", feature->max_position);
    PUT(sheet, ",\"items\":[");
    for (uint32_t i = 0; i < feature->seen_count && i < IPV_ITEMS_OUT; i++) {
        const struct ipv_seen *seen = &feature->seen[i];
        put(sheet, ",", i > 0);
        PUT(sheet, "{\"id\":");
        put_text(sheet, &seen->id);
        PUT_NUMBER(sheet, "position", seen->position);
        PUT_NUMBER(sheet, "at_ms", seen->at_ms);
        PUT_NUMBER(sheet, "visible_ms", seen->seen_ms);
        PUT_NUMBER(sheet, "shows", seen->shows);
        PUT_NUMBER(sheet, "clicks", seen->clicks);
        PUT(sheet, "}");
    }
    PUT(sheet, "]}");
}

static void put_clicks(struct sheet *sheet, const struct ipv_feature *feature)
{
    PUT(sheet, ",\"actions\":{");
    for (uint32_t i = 0; i < IPV_ACTIONS; i++) {
        put(sheet, ",", i > 0);
        PUT(sheet, "\"");
        put(sheet, ACTION_NAMES[i], strlen(ACTION_NAMES[i]));
        PUT(sheet, "\":[");
        put_number(sheet, feature->actions[i]);
        PUT(sheet, ",");
        put_number(sheet, (int64_t)feature->action_ms[i]);
        PUT(sheet, "]");
    }
    PUT(sheet, "},\"clicks\":[");
    uint32_t from = feature->presses > IPV_CLICKS ? feature->presses - IPV_CLICKS : 0;
    for (uint32_t i = from; i < feature->presses; i++) {
        const struct ipv_press *press = &feature->last[i % IPV_CLICKS];
        put(sheet, ",", i > from);
        PUT(sheet, "[");
        put_text(sheet, &press->target);
        PUT(sheet, ",");
        put_number(sheet, (int64_t)press->after_ms);
        PUT(sheet, "]");
    }
    PUT(sheet, "]");
}

size_t ipv_feature_json(const struct ipv_feature *feature, char *out, size_t capacity)
{
    struct sheet sheet = {out, out + capacity, false};
    put_head(&sheet, feature);
    put_exposure(&sheet, feature);
    put_clicks(&sheet, feature);
    PUT(&sheet, ",\"zones\":[");
    for (uint32_t i = 0; i < IPV_ZONES; i++) {
        put(&sheet, ",", i > 0);
        put_number(&sheet, feature->zones[i]);
    }
    PUT(&sheet, "],\"perf_ms\":[");
    put_number(&sheet, feature->perfs);
    PUT(&sheet, ",");
    put_number(&sheet, feature->perf_ms);
    PUT(&sheet, "],\"sequence\":\"");
    put(&sheet, feature->sequence, feature->events < IPV_SEQUENCE ? feature->events : IPV_SEQUENCE);
    PUT(&sheet, "\"}");
    return sheet.full ? 0 : (size_t)(sheet.at - out);
}
