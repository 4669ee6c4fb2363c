// Reads labelled scores. Called by cli_fallback.c, on its one thread; a line at a time, so that a
// file may be larger than memory. The line is cut into fields in place; the header says which
// field is what.
#include "cli/fallback/scores_file.h"

#include "base/os/regular_file.h"
#include "base/str.h"
#include "base/text/real.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum column { CONFIDENCE, DEVICE_RIGHT, CLOUD_RIGHT, DEVICE, CLOUD, LABEL, COLUMN_COUNT };

static const char *const column_names[COLUMN_COUNT] = {"confidence", "device_right", "cloud_right",
                                                       "device",     "cloud",        "label"};

struct reader {
    FILE *file;
    uint32_t line;
    char text[SCORES_LINE_MAX + 2]; // with the end of the line and NUL
    int columns[COLUMN_COUNT];      // where; -1: nowhere
    const char *fields[SCORES_COLUMNS_MAX];
    int field_count;
    struct base_error *error;
};

static enum base_status refuse(const struct reader *reader, const char *what, const char *value)
{
    enum base_status status =
        base_error_set(reader->error, BASE_ERR_INVALID, "line %u: %s%s%s", reader->line, what,
                       value[0] != '\0' ? ": " : "", value);
    if (reader->error != NULL) {
        reader->error->line = reader->line;
    }
    return status;
}

// Cuts the line into fields, in place.
static enum base_status split(struct reader *reader)
{
    char *at = reader->text;
    reader->field_count = 0;
    for (;;) {
        if (reader->field_count == SCORES_COLUMNS_MAX) {
            return base_error_set(reader->error, BASE_ERR_TOO_LARGE,
                                  "line %u: more than %d columns", reader->line,
                                  SCORES_COLUMNS_MAX);
        }
        char *end = at + strcspn(at, ",");
        bool last = *end == '\0';
        at += strspn(at, " \t");
        char *trim = end > at ? end : at;
        while (trim > at && strchr(" \t\r\n", trim[-1]) != NULL) {
            trim--;
        }
        *trim = '\0';
        reader->fields[reader->field_count++] = at;
        if (last) {
            return BASE_OK;
        }
        at = end + 1;
    }
}

enum line_end { LINE_NONE, LINE_WHOLE, LINE_LONG, LINE_NUL };

// A line into reader->text, with its end. A NUL byte in it would hide what is behind.
static enum line_end take_line(struct reader *reader)
{
    size_t size = 0;
    int byte = 0;
    bool nul = false;
    while (size <= SCORES_LINE_MAX && byte != '\n' && (byte = getc_unlocked(reader->file)) != EOF) {
        reader->text[size++] = (char)byte;
        nul = nul || byte == '\0';
    }
    reader->text[size] = '\0';
    reader->line += size > 0 ? 1 : 0;
    return nul                                              ? LINE_NUL
           : size > SCORES_LINE_MAX && byte != '\n'         ? LINE_LONG
           : size > 0 && ferror_unlocked(reader->file) == 0 ? LINE_WHOLE
                                                            : LINE_NONE;
}

// False at the end of the file; *out_status when it is not OK.
static bool next_line(struct reader *reader, enum base_status *out_status)
{
    *out_status = BASE_OK;
    do {
        enum line_end end = take_line(reader);
        if (end == LINE_NONE) {
            if (ferror(reader->file)) {
                *out_status = base_error_set(reader->error, BASE_ERR_IO, "it cannot be read");
            }
            return false;
        }
        if (end == LINE_NUL) {
            *out_status = refuse(reader, "a NUL byte: lines are text", "");
            return false;
        }
        if (end == LINE_LONG) {
            *out_status =
                base_error_set(reader->error, BASE_ERR_TOO_LARGE, "line %u: more than %d bytes",
                               reader->line, SCORES_LINE_MAX);
            return false;
        }
    } while (reader->text[strspn(reader->text, " \t\r\n")] == '\0');
    if (strchr(reader->text, '"') != NULL) {
        *out_status = refuse(reader, "a quote: fields have none, nor commas", "");
        return false;
    }
    *out_status = split(reader);
    return *out_status == BASE_OK;
}

static enum base_status read_header(struct reader *reader)
{
    enum base_status status;
    if (!next_line(reader, &status)) {
        return status != BASE_OK ? status
                                 : base_error_set(reader->error, BASE_ERR_INVALID, "it is empty");
    }
    for (int column = 0; column < COLUMN_COUNT; column++) {
        reader->columns[column] = -1;
        for (int i = 0; i < reader->field_count; i++) {
            if (strcasecmp(reader->fields[i], column_names[column]) != 0) {
                continue;
            }
            if (reader->columns[column] >= 0) {
                return refuse(reader, "two columns of one name", column_names[column]);
            }
            reader->columns[column] = i;
        }
    }
    const int *at = reader->columns;
    bool rights = at[DEVICE_RIGHT] >= 0 && at[CLOUD_RIGHT] >= 0;
    bool answers = at[DEVICE] >= 0 && at[CLOUD] >= 0 && at[LABEL] >= 0;
    if (at[CONFIDENCE] < 0 || (!rights && !answers)) {
        return refuse(reader,
                      "columns wanted: confidence and device_right,cloud_right or "
                      "device,cloud,label; it begins with",
                      reader->fields[0]);
    }
    return BASE_OK;
}

static enum base_status read_flag(const struct reader *reader, const char *text, bool *out_flag)
{
    bool yes = strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0;
    if (!yes && strcmp(text, "0") != 0 && strcasecmp(text, "false") != 0) {
        return refuse(reader, "neither 0 nor 1, false nor true", text);
    }
    *out_flag = yes;
    return BASE_OK;
}

static enum base_status read_scored(const struct reader *reader, struct pol_scored *out)
{
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (reader->columns[column] >= reader->field_count) {
            return refuse(reader, "it has no field of the column", column_names[column]);
        }
    }
    const char *text = reader->fields[reader->columns[CONFIDENCE]];
    const char *end = text;
    double confidence = base_real_read(text, &end);
    // Hexadecimal digits and the like are no writing of a confidence.
    bool plain = text[strspn(text, "0123456789.eE+-")] == '\0';
    if (!plain || end == text || *end != '\0' || !(confidence >= 0 && confidence <= 1)) {
        return refuse(reader, "a confidence is a number from 0 to 1, not", text);
    }
    // Rounded down: what is below a threshold stays below it.
    out->confidence_ppm = (uint32_t)floor(confidence * 1e6 + 1e-6);
    if (reader->columns[DEVICE_RIGHT] >= 0 && reader->columns[CLOUD_RIGHT] >= 0) {
        enum base_status status =
            read_flag(reader, reader->fields[reader->columns[DEVICE_RIGHT]], &out->device_right);
        return status != BASE_OK ? status
                                 : read_flag(reader, reader->fields[reader->columns[CLOUD_RIGHT]],
                                             &out->cloud_right);
    }
    const char *label = reader->fields[reader->columns[LABEL]];
    if (label[0] == '\0') {
        return refuse(reader, "the label is empty", "");
    }
    out->device_right = strcmp(reader->fields[reader->columns[DEVICE]], label) == 0;
    out->cloud_right = strcmp(reader->fields[reader->columns[CLOUD]], label) == 0;
    return BASE_OK;
}

static enum base_status read_all(struct reader *reader, struct pol_cuts *out_cuts)
{
    enum base_status status = read_header(reader);
    while (status == BASE_OK && next_line(reader, &status)) {
        struct pol_scored scored;
        if (out_cuts->total == SCORES_MAX) {
            return base_error_set(reader->error, BASE_ERR_TOO_LARGE, "more than %llu lines",
                                  (unsigned long long)SCORES_MAX);
        }
        if ((status = read_scored(reader, &scored)) == BASE_OK) {
            pol_cuts_add(out_cuts, scored);
        }
    }
    return status;
}

enum base_status scores_read(FILE *file, struct pol_cuts *out_cuts, struct base_error *error)
{
    struct reader reader = {.file = file, .error = error};
    pol_cuts_init(out_cuts);
    enum base_status status = read_all(&reader, out_cuts);
    if (status == BASE_OK && out_cuts->total == 0) {
        status = base_error_set(error, BASE_ERR_INVALID, "no line of scores");
    }
    if (status == BASE_OK) {
        pol_cuts_sum(out_cuts);
    }
    return status;
}

enum base_status scores_file_read(const char *path, struct pol_cuts *out_cuts,
                                  struct base_error *error)
{
    int fd;
    enum base_status status = base_regular_open(path, O_RDONLY, &fd, error);
    if (status != BASE_OK) {
        return status;
    }
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        (void)close(fd);
        return base_error_set(error, BASE_ERR_NOMEM, "no memory");
    }
    status = scores_read(file, out_cuts, error);
    (void)fclose(file);
    return status;
}
