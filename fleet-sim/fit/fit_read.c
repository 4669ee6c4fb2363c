// Reading the curves that a fit is of: from a file, or from the records of a gateway's devices.
// fit_main.c calls it on the main thread. Both are whatever somebody has: each line, each record is
// checked.
#include "fit/fit.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/regular_file.h"
#include "harvest/gateway_source.h"
#include "model/sim_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES     512
#define PAGE_BYTES_MAX (8u * 1024 * 1024)
#define KEY_MAX        64
#define SAMPLE_MAX     1000000u // devices of a folder that are looked at
#define VERSIONS_MAX   16u
#define PIECES_MAX     200u // of a straight line

bool sim_fit_line(struct sim_steps *steps, double x, double y)
{
    bool first = steps->count == 0;
    double from_x = first ? x : steps->x[steps->count - 1];
    double from_y = first ? y : steps->y[steps->count - 1];
    double wanted = ceil(y - from_y);
    uint32_t pieces = wanted > 1 ? (wanted < PIECES_MAX ? (uint32_t)wanted : PIECES_MAX) : 1;
    for (uint32_t i = 1; i <= pieces; i++) {
        double part = (double)i / pieces;
        if (!sim_steps_add(steps, from_x + (x - from_x) * part, from_y + (y - from_y) * part)) {
            return false;
        }
    }
    return true;
}

double sim_fit_off(const struct sim_steps *steps, uint32_t at, sim_fit_value_fn value_at,
                   const void *ctx)
{
    double below = at > 0 ? steps->y[at - 1] : 0;
    double before_s = steps->x[at] - SIM_FIT_BEFORE_S;
    base_assert(at < steps->count);
    // Where two steps are closer than that, the one before says how it is just before.
    bool near = at > 0 && steps->x[at - 1] > before_s;
    double before = near || before_s < 0 ? 0 : fabs(value_at(ctx, before_s) - below);
    double now = fabs(value_at(ctx, steps->x[at]) - steps->y[at]);
    return before > now ? before : now;
}

void sim_fit_done(struct sim_fit *fit)
{
    free(fit->came.x);
    free(fit->came.y);
    free(fit->ran.x);
    free(fit->ran.y);
    fit->came = (struct sim_steps){.count = 0};
    fit->ran = (struct sim_steps){.count = 0};
}

// ---- A file

// "X,Y" to the end of the line.
static bool take_numbers(const char *text, double *out_x, double *out_y)
{
    char *end = NULL;
    *out_x = strtod(text, &end);
    if (end == text || *end != ',') {
        return false;
    }
    const char *second = end + 1;
    *out_y = strtod(second, &end);
    end += strspn(end, "\r\n");
    return end != second && *end == '\0' && *out_x >= 0 && *out_x <= SIM_ARRIVAL_SECONDS &&
           *out_y >= 0 && isfinite(*out_y);
}

struct row {
    char manifest[SIM_NAME_MAX]; // empty: the file has none
    bool came;
    bool ran;
    double x;
    double y;
};

// MANIFEST,STAGE,X,Y or X,Y.
static bool row_parse(char *line, struct row *out)
{
    char *first = strchr(line, ',');
    char *second = first != NULL ? strchr(first + 1, ',') : NULL;
    *out = (struct row){.came = true};
    if (second == NULL) {
        return take_numbers(line, &out->x, &out->y);
    }
    *first = '\0';
    *second = '\0';
    (void)snprintf(out->manifest, sizeof(out->manifest), "%s", line);
    out->came = strcmp(first + 1, "offered") == 0;
    out->ran = strcmp(first + 1, "ran") == 0;
    bool known = out->came || out->ran || strcmp(first + 1, "downloaded") == 0 ||
                 strcmp(first + 1, "activated") == 0;
    return known && line[0] != '\0' && take_numbers(second + 1, &out->x, &out->y);
}

typedef bool (*row_fn)(void *ctx, const struct row *row); // false: no memory

static enum base_status rows_read(const char *path, row_fn take, void *ctx,
                                  struct base_error *error)
{
    char line[LINE_BYTES];
    FILE *file = NULL;
    struct base_error inner = {.status = BASE_OK};
    if (base_regular_stream(path, &file, &inner) != BASE_OK) { // a pipe would hold this up
        return base_error_set(error, BASE_ERR_IO, "%s", inner.text);
    }
    enum base_status status = BASE_OK;
    for (uint32_t number = 1; status == BASE_OK && fgets(line, sizeof(line), file) != NULL;
         number++) {
        struct row row;
        bool head =
            number == 1 && (line[0] < '0' || line[0] > '9') && strstr(line, "devices") != NULL;
        if (head || line[0] == '#') {
            continue;
        }
        // Longer than it may be, or it has a NUL byte.
        bool cut = strchr(line, '\n') == NULL && feof(file) == 0;
        if (cut || !row_parse(line, &row) || number > SIM_FIT_ROWS_MAX) {
            status = base_error_set(error, BASE_ERR_INVALID,
                                    "%.200s: line %u: MANIFEST,STAGE,SECOND,DEVICES or "
                                    "SECOND,DEVICES is expected",
                                    path, number);
        } else if (row.y > SIM_DEVICES_MAX) {
            status =
                base_error_set(error, BASE_ERR_INVALID, "%.200s: line %u: more than %u devices",
                               path, number, SIM_DEVICES_MAX);
        } else if (!take(ctx, &row)) {
            status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    if (status == BASE_OK && ferror(file) != 0) {
        status = base_error_set(error, BASE_ERR_IO, "%.200s cannot be read", path);
    }
    (void)fclose(file);
    return status;
}

// How many each version was offered to.
struct found {
    const char *wanted; // NULL: any
    char names[VERSIONS_MAX][SIM_NAME_MAX];
    double most[VERSIONS_MAX];
    uint32_t count;
};

static bool find_version(void *ctx, const struct row *row)
{
    struct found *found = ctx;
    uint32_t i = 0;
    if (found->wanted != NULL &&
        strncmp(row->manifest, found->wanted, strlen(found->wanted)) != 0) {
        return true;
    }
    while (i < found->count && strcmp(found->names[i], row->manifest) != 0) {
        i++;
    }
    if (i == found->count && found->count < VERSIONS_MAX) {
        memcpy(found->names[i], row->manifest, sizeof(row->manifest));
        found->count++;
    }
    if (i < found->count && row->came && row->y > found->most[i]) {
        found->most[i] = row->y;
    }
    return true;
}

struct taking {
    struct sim_fit *fit;
    const char *manifest;
};

static bool take_row(void *ctx, const struct row *row)
{
    const struct taking *taking = ctx;
    struct sim_fit *fit = taking->fit;
    if (strcmp(row->manifest, taking->manifest) != 0 || (!row->came && !row->ran)) {
        return true;
    }
    if (row->manifest[0] == '\0') {
        return sim_fit_line(&fit->came, row->x, row->y);
    }
    return sim_steps_add(row->came ? &fit->came : &fit->ran, row->x, row->y);
}

enum base_status sim_fit_file(struct sim_fit *fit, struct base_error *error)
{
    struct found found = {.wanted = fit->manifest};
    uint32_t best = 0;
    BASE_TRY(rows_read(fit->from, find_version, &found, error));
    if (found.count == 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%.200s: no curve%s%.64s is in it",
                              fit->from, fit->manifest != NULL ? " of " : "",
                              fit->manifest != NULL ? fit->manifest : "");
    }
    for (uint32_t i = 1; i < found.count; i++) {
        best = found.most[i] > found.most[best] ? i : best;
    }
    struct taking taking = {.fit = fit, .manifest = found.names[best]};
    return rows_read(fit->from, take_row, &taking, error);
}

// ---- A folder

struct moments {
    double *came; // seconds of the wall clock
    double *ran;
    uint32_t came_count;
    uint32_t ran_count;
    uint32_t capacity;
};

static bool moments_grow(struct moments *moments)
{
    double **const all[] = {&moments->came, &moments->ran};
    if (moments->came_count < moments->capacity) {
        return true;
    }
    uint32_t capacity = moments->capacity > 0 ? 2 * moments->capacity : 1024;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        double *more = realloc(*all[i], sizeof(double) * capacity);
        if (more == NULL) {
            return false;
        }
        *all[i] = more;
    }
    moments->capacity = capacity;
    return true;
}

// What a device's record has of the rollout. A device that went on to something else ran it at a
// time that is not kept.
static bool device_take(struct moments *moments, const json_t *device, const char *rollout)
{
    size_t index;
    const json_t *outcome;
    json_array_foreach(json_object_get(device, "outcomes"), index, outcome)
    {
        const char *of = json_string_value(json_object_get(outcome, "rollout"));
        const char *last = json_string_value(json_object_get(outcome, "last"));
        double offered_s = json_number_value(json_object_get(outcome, "offered_s"));
        double updated_s = json_number_value(json_object_get(outcome, "updated_s"));
        if (of == NULL || strcmp(of, rollout) != 0 || !(offered_s > 0)) {
            continue;
        }
        if (!moments_grow(moments)) {
            return false;
        }
        moments->came[moments->came_count++] = offered_s;
        if (last != NULL && strcmp(last, "ran") == 0 && updated_s >= offered_s) {
            moments->ran[moments->ran_count++] = updated_s;
        }
    }
    return true;
}

static json_t *answer_of(struct sim_source *source, const char *path, struct base_buffer *page)
{
    return sim_source_ask(source, path, page) == 200
               ? json_loadb((const char *)page->data, page->size, 0, NULL)
               : NULL;
}

// Records of the devices of a page, each asked for by itself: a list has no outcomes.
static enum base_status devices_take(struct moments *moments, const struct sim_fit *fit,
                                     const json_t *items, struct sim_source *source)
{
    struct base_buffer record;
    enum base_status status = BASE_OK;
    size_t index;
    const json_t *item;
    base_buffer_init(&record, base_alloc_heap(), PAGE_BYTES_MAX);
    json_array_foreach(items, index, item)
    {
        char path[64];
        const char *id = json_string_value(json_object_get(item, "id"));
        (void)snprintf(path, sizeof(path), "/api/v1/devices/%.16s", id != NULL ? id : "");
        json_t *device = answer_of(source, path, &record);
        status = device == NULL                               ? BASE_ERR_IO
                 : device_take(moments, device, fit->rollout) ? status
                                                              : BASE_ERR_NOMEM;
        json_decref(device);
        if (status != BASE_OK) {
            break;
        }
    }
    base_buffer_done(&record);
    return status;
}

// Ids are drawn by chance: the first devices are a fair sample of all.
static enum base_status pages_take(struct moments *moments, const struct sim_fit *fit,
                                   struct sim_source *source, struct base_error *error)
{
    struct base_buffer page;
    char next[KEY_MAX] = "";
    uint32_t looked = 0;
    enum base_status status = BASE_OK;
    base_buffer_init(&page, base_alloc_heap(), PAGE_BYTES_MAX);
    do {
        char path[128];
        (void)snprintf(path, sizeof(path), "/api/v1/devices?limit=500%s%s",
                       next[0] != '\0' ? "&after=" : "", next);
        json_t *root = answer_of(source, path, &page);
        const json_t *items = json_object_get(root, "items");
        const char *after = json_string_value(json_object_get(root, "next"));
        looked += (uint32_t)json_array_size(items);
        (void)snprintf(next, sizeof(next), "%s", after != NULL ? after : "");
        status = root != NULL ? devices_take(moments, fit, items, source) : BASE_ERR_IO;
        json_decref(root);
    } while (status == BASE_OK && next[0] != '\0' && looked < SAMPLE_MAX);
    base_buffer_done(&page);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%.80s: the list of devices: %s",
                                              fit->from, base_status_text(status));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Whole seconds: those who came within one came evenly, and nobody while there is none.
static bool curve_make(struct sim_steps *steps, double *moments, uint32_t count, double from_s)
{
    qsort(moments, count, sizeof(*moments), compare_doubles);
    for (uint32_t i = 0; i < count; i++) {
        bool last = i + 1 == count || moments[i + 1] > moments[i];
        double at_s = moments[i] - from_s;
        double before = steps->count > 0 ? steps->y[steps->count - 1] : 0;
        bool gap = last && (steps->count == 0 || steps->x[steps->count - 1] < at_s);
        if ((gap && !sim_steps_add(steps, at_s, before)) ||
            (last && !sim_fit_line(steps, at_s + 1, i + 1))) {
            return false;
        }
    }
    return true;
}

enum base_status sim_fit_folder(struct sim_fit *fit, struct base_error *error)
{
    struct sim_source *source = NULL;
    struct moments moments = {.capacity = 0};
    base_assert(fit->rollout != NULL);
    BASE_TRY(sim_source_folder(fit->from, &source, error));
    enum base_status status = pages_take(&moments, fit, source, error);
    sim_source_free(source);
    if (status == BASE_OK && moments.came_count == 0) {
        status =
            base_error_set(error, BASE_ERR_NOT_FOUND, "%.120s: no device was offered rollout %.16s",
                           fit->from, fit->rollout);
    }
    if (status == BASE_OK) {
        qsort(moments.came, moments.came_count, sizeof(double), compare_doubles);
        double from_s = moments.came[0];
        bool made = curve_make(&fit->came, moments.came, moments.came_count, from_s) &&
                    curve_make(&fit->ran, moments.ran, moments.ran_count, from_s);
        status = made ? BASE_OK : base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    free(moments.came);
    free(moments.ran);
    return status;
}

// ---- Both

static bool rises(const struct sim_steps *steps)
{
    for (uint32_t i = 1; i < steps->count; i++) {
        if (steps->x[i] < steps->x[i - 1] || steps->y[i] < steps->y[i - 1]) {
            return false;
        }
    }
    return true;
}

enum base_status sim_fit_check(const struct sim_fit *fit, struct base_error *error)
{
    const struct sim_steps *came = &fit->came;
    const struct sim_steps *ran = &fit->ran;
    if (came->count < 2 || !(came->y[came->count - 1] >= 2) || came->x[came->count - 1] <= 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.120s: a curve of at least two moments and two devices is expected",
                              fit->from);
    }
    if (!rises(came) || !rises(ran)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.120s: a curve never falls, in time and devices", fit->from);
    }
    if (ran->count > 0 && ran->y[ran->count - 1] > came->y[came->count - 1]) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.120s: more devices ran it than were offered it", fit->from);
    }
    return BASE_OK;
}
