// The reader of scenario files. fleet_options.c calls it on the main thread, between a first look
// at the command line and the real one: what stands there is taken later, so it wins, and an option
// that may be given several times is not taken from both.
#include "command/scenario_file.h"

#include "base/check.h"
#include "people/people_lines.h"
#include "people/sim_local_file.h"

#include <stdlib.h>
#include <string.h>

error_t sim_scenario_given(int key, char *value, struct argp_state *state)
{
    struct sim_scenario *scenario = state->input;
    if (key == scenario->key) {
        scenario->path = value;
    }
    if (key > 0 && key < SIM_OPTION_KEYS_MAX) {
        scenario->given[key] = true;
    }
    return 0;
}

static const struct argp_option *row_named(const struct argp_option *row, struct base_str name)
{
    while ((row->name != NULL || row->doc != NULL) &&
           (row->name == NULL || !base_str_equal(base_str_of(row->name), name))) {
        row++;
    }
    return row->name != NULL ? row : NULL;
}

// NULL: it was taken, or need not be; else what is wrong.
static const char *take(struct sim_scenario *scenario, const struct argp_option *row, char *value)
{
    struct argp_state state = {.input = scenario->input};
    if (row == NULL || row->key == scenario->key) {
        return "a line is `name = value`, and the names are those of the long options (--help)";
    }
    base_check(row->key > 0 && row->key < SIM_OPTION_KEYS_MAX);
    if (scenario->given[row->key]) {
        return NULL;
    }
    bool yes = strcmp(value, "yes") == 0;
    if (row->arg == NULL && !yes) {
        return strcmp(value, "no") == 0 ? NULL : "yes or no is expected";
    }
    bool taken = scenario->take(row->key, row->arg != NULL ? value : NULL, &state) == 0;
    return taken ? NULL : scenario->error->text;
}

static enum base_status take_lines(struct sim_scenario *scenario, struct base_str text)
{
    struct sim_lines lines;
    struct base_str line;
    sim_lines_begin(&lines, scenario->path, text);
    while (sim_lines_next(&lines, &line)) {
        struct base_str name = {NULL, 0};
        struct base_str value = {NULL, 0};
        const struct argp_option *row = NULL;
        char kept[BASE_ERROR_TEXT_MAX];
        if (memchr(line.data, '\0', line.size) != NULL) {
            return sim_lines_refuse(&lines, scenario->error, "a NUL byte: lines are text");
        }
        if (sim_line_split(line, '=', &name, &value)) {
            row = row_named(scenario->table, name);
        } else {
            value = line;
        }
        char *start = scenario->text + (value.data - text.data);
        start[value.size] = '\0'; // behind it is a space, the line's end, or the text's
        const char *wrong = take(scenario, row, start);
        if (wrong != NULL) {
            (void)snprintf(kept, sizeof(kept), "%s", wrong); // it may stand where it is to go
            return sim_lines_refuse(&lines, scenario->error, kept);
        }
    }
    return BASE_OK;
}

enum base_status sim_scenario_read(struct sim_scenario *scenario)
{
    struct base_buffer file;
    struct base_error inner = {.status = BASE_OK};
    base_assert(scenario->text == NULL);
    if (scenario->path == NULL) {
        return BASE_OK;
    }
    enum base_status status = sim_local_read(scenario->path, SIM_PEOPLE_FILE_MAX, &file, &inner);
    if (status != BASE_OK) {
        return base_error_set(scenario->error, BASE_ERR_INVALID, "--scenario %s", inner.text);
    }
    scenario->text = malloc(file.size + 1);
    if (scenario->text == NULL) {
        status = base_error_set(scenario->error, BASE_ERR_NOMEM, "out of memory");
    } else {
        memcpy(scenario->text, file.data, file.size);
        scenario->text[file.size] = '\0';
        status = take_lines(scenario, (struct base_str){scenario->text, file.size});
    }
    base_buffer_done(&file);
    return status;
}

void sim_scenario_done(struct sim_scenario *scenario)
{
    free(scenario->text);
    scenario->text = NULL;
}
