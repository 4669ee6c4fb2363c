// The audience of a stage for people: what a plan and an explanation show beside its share, for a
// share says nothing without whom it is of. The JSON was checked by audience_check.c, or comes from
// the gateway, which spells it as an expression. One thread, called by plan_show.c and
// rollout_explain.c.
#include "cli/stages/audience_text.h"

#include "cli/base/cli_json.h"

#include <stdlib.h>
#include <string.h>

static void cond_print(FILE *file, const json_t *cond)
{
    const char *attr = cli_json_text(cond, "attr", "?");
    const char *op = cli_json_text(cond, "op", "?");
    if (strcmp(op, "present") == 0 || strcmp(op, "absent") == 0) {
        fprintf(file, "%shas(%s)", op[0] == 'a' ? "!" : "", attr);
        return;
    }
    char *value = json_dumps(json_object_get(cond, "value"), JSON_ENCODE_ANY | JSON_COMPACT);
    fprintf(file, "%s %s %s", attr, strcmp(op, "not_in") == 0 ? "! in" : op, cli_shown(value));
    free(value);
}

void audience_text_print(FILE *file, const json_t *stage)
{
    const json_t *audience = json_object_get(stage, "audience");
    size_t index;
    json_t *cond;
    if (json_is_string(audience)) {
        fputs(cli_shown(json_string_value(audience)), file);
    }
    json_array_foreach(audience, index, cond)
    {
        fputs(index > 0 ? " && " : "", file);
        cond_print(file, cond);
    }
}
