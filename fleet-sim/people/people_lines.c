// The reader of lines that population_file.c, scenario_file.c and arrivals.c share. Main thread,
// before a run. It copies nothing: lines and words point into the text that the caller keeps, and
// stay good as long as that does.
#include "people/people_lines.h"

#include "base/check.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct base_str trimmed(struct base_str text)
{
    while (text.size > 0 && is_space(text.data[text.size - 1])) {
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    return text;
}

static struct base_str without_comment(struct base_str line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] == '#' && (i == 0 || is_space(line.data[i - 1]))) {
            line.size = i;
        }
    }
    return trimmed(line);
}

void sim_lines_begin(struct sim_lines *lines, const char *name, struct base_str text)
{
    *lines = (struct sim_lines){.name = name, .rest = text};
}

bool sim_lines_next(struct sim_lines *lines, struct base_str *out_line)
{
    base_assert(lines->name != NULL);
    while (lines->rest.size > 0) {
        const char *end = memchr(lines->rest.data, '\n', lines->rest.size);
        size_t size = end != NULL ? (size_t)(end - lines->rest.data) : lines->rest.size;
        struct base_str line = without_comment((struct base_str){lines->rest.data, size});
        size += end != NULL ? 1 : 0;
        lines->rest.data += size;
        lines->rest.size -= size;
        lines->number++;
        if (line.size > 0) {
            *out_line = line;
            return true;
        }
    }
    return false;
}

enum base_status sim_lines_refuse(const struct sim_lines *lines, struct base_error *error,
                                  const char *what)
{
    return base_error_set(error, BASE_ERR_INVALID, "%.60s:%u: %s", lines->name, lines->number,
                          what);
}

struct base_str sim_line_word(struct base_str *line)
{
    *line = trimmed(*line);
    struct base_str word = {line->data, 0};
    while (word.size < line->size && !is_space(word.data[word.size])) {
        word.size++;
    }
    line->data += word.size;
    line->size -= word.size;
    return word;
}

bool sim_line_split(struct base_str line, char mark, struct base_str *out_before,
                    struct base_str *out_after)
{
    const char *at = line.size > 0 ? memchr(line.data, mark, line.size) : NULL;
    if (at == NULL) {
        return false;
    }
    size_t before = (size_t)(at - line.data);
    *out_before = trimmed((struct base_str){line.data, before});
    *out_after = trimmed((struct base_str){at + 1, line.size - before - 1});
    return true;
}
