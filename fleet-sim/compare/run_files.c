// Reading what a run left: its numbers, its coverage curves and the distributions of its latencies.
// conform_main.c calls it. The files are the simulator's own, and are checked all the same: a line
// that makes no sense is an error with its number.
#include "compare/compare.h"

#include "base/check.h"
#include "base/os/regular_file.h"

#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 512
#define LINE_BYTES 256

bool sim_steps_add(struct sim_steps *steps, double x, double y)
{
    if (steps->count == steps->capacity) {
        uint32_t capacity = steps->capacity > 0 ? 2 * steps->capacity : 64;
        double *more_x = realloc(steps->x, sizeof(double) * capacity);
        steps->x = more_x != NULL ? more_x : steps->x;
        double *more_y = more_x != NULL ? realloc(steps->y, sizeof(double) * capacity) : NULL;
        if (more_y == NULL) {
            return false;
        }
        steps->y = more_y;
        steps->capacity = capacity;
    }
    steps->x[steps->count] = x;
    steps->y[steps->count++] = y;
    return true;
}

// The one of this name, begun where it is new; NULL: there is no place for it.
static struct sim_steps *steps_of(struct sim_steps *all, uint32_t *count, uint32_t max,
                                  const char *name)
{
    struct sim_steps *found = (struct sim_steps *)(uintptr_t)sim_steps_find(all, *count, name);
    if (found == NULL && *count < max) {
        found = &all[(*count)++];
        (void)snprintf(found->name, sizeof(found->name), "%s", name);
    }
    return found;
}

const struct sim_steps *sim_steps_find(const struct sim_steps *all, uint32_t count,
                                       const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

double sim_steps_at(const struct sim_steps *steps, double x)
{
    uint32_t low = 0;
    uint32_t high = steps->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (steps->x[middle] <= x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? steps->y[low - 1] : 0;
}

typedef bool (*line_fn)(struct sim_run_files *files, char *line);

// ",X,Y", and nothing behind it.
static bool take_numbers(const char *text, double *out_x, double *out_y)
{
    char *end = NULL;
    *out_x = strtod(text + 1, &end);
    if (end == text + 1 || *end != ',') {
        return false;
    }
    const char *second = end + 1;
    *out_y = strtod(second, &end);
    return end != second && (*end == '\n' || *end == '\0');
}

// "MANIFEST,STAGE,T,DEVICES"
static bool take_curve(struct sim_run_files *files, char *line)
{
    char *comma = strchr(line, ',');
    char *second = comma != NULL ? strchr(comma + 1, ',') : NULL;
    double x = 0, y = 0;
    if (second == NULL || !take_numbers(second, &x, &y) || !(x <= SIM_CURVE_SECONDS_MAX)) {
        return false;
    }
    *second = '\0';
    struct sim_steps *steps = steps_of(files->curves, &files->curve_count, SIM_CURVES_MAX, line);
    return steps != NULL && sim_steps_add(steps, x, y);
}

// "LATENCY,UPTO,COUNT", and the counts are summed up.
static bool take_latency(struct sim_run_files *files, char *line)
{
    char *comma = strchr(line, ',');
    double x = 0, count = 0;
    if (comma == NULL || !take_numbers(comma, &x, &count)) {
        return false;
    }
    *comma = '\0';
    struct sim_steps *steps =
        steps_of(files->latencies, &files->latency_count, SIM_LATENCIES_MAX, line);
    double before = steps != NULL && steps->count > 0 ? steps->y[steps->count - 1] : 0;
    return steps == NULL || sim_steps_add(steps, x, before + count);
}

static enum base_status lines_read(struct sim_run_files *files, const char *path, line_fn take,
                                   struct base_error *error)
{
    char line[LINE_BYTES];
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error)); // a pipe would hold this up for ever
    enum base_status status = BASE_OK;
    for (uint32_t number = 1; status == BASE_OK && fgets(line, sizeof(line), file) != NULL;
         number++) {
        if (number > 1 && !take(files, line)) {
            status =
                base_error_set(error, BASE_ERR_INVALID, "%s: line %u makes no sense", path, number);
        }
    }
    if (status == BASE_OK && ferror(file) != 0) {
        status = base_error_set(error, BASE_ERR_IO, "%s cannot be read", path);
    }
    (void)fclose(file);
    return status;
}

static enum base_status read_all(const char *folder, struct sim_run_files *out,
                                 struct base_error *error)
{
    char path[PATH_BYTES];
    json_error_t why;
    FILE *file = NULL;
    (void)snprintf(path, sizeof(path), "%s/run.json", folder);
    BASE_TRY(base_regular_stream(path, &file, error));
    out->json = json_loadf(file, 0, &why);
    (void)fclose(file);
    if (out->json == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%s: %.120s", path, why.text);
    }
    out->devices = json_number_value(json_object_get(out->json, "devices"));
    if (!(out->devices > 0)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s is of no run", path);
    }
    (void)snprintf(path, sizeof(path), "%s/coverage.csv", folder);
    BASE_TRY(lines_read(out, path, take_curve, error));
    (void)snprintf(path, sizeof(path), "%s/latency.csv", folder);
    return lines_read(out, path, take_latency, error);
}

enum base_status sim_run_files_read(const char *folder, struct sim_run_files *out,
                                    struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    enum base_status status = read_all(folder, out, error);
    if (status != BASE_OK) {
        sim_run_files_done(out);
    }
    return status;
}

void sim_run_files_done(struct sim_run_files *files)
{
    for (uint32_t i = 0; i < files->curve_count; i++) {
        free(files->curves[i].x);
        free(files->curves[i].y);
    }
    for (uint32_t i = 0; i < files->latency_count; i++) {
        free(files->latencies[i].x);
        free(files->latencies[i].y);
    }
    json_decref(files->json);
    memset(files, 0, sizeof(*files));
}
