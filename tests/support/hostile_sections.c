// Reads the files of tests/hostile_scripts/ends. A head is a line that begins with "# ==== ", then
// NAME, ": " and END; what stands between it and the next is the script. Called by a test and by a
// benchmark, on one thread.
#include "hostile_sections.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD       "\n# ==== "
#define TEXT_MAX   (256L * 1024)
#define PATH_BYTES 512

static bool file_read(const char *path, struct hostile_sections *sections)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, TEXT_MAX + 1);
    size_t size = file != NULL && text != NULL ? fread(text, 1, TEXT_MAX, file) : 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (size == 0 || size == TEXT_MAX ||
        sections->text_count == sizeof(sections->texts) / sizeof(sections->texts[0])) {
        free(text);
        return false;
    }
    sections->texts[sections->text_count++] = text;
    return true;
}

static struct base_str piece(const char *from, const char *to)
{
    return (struct base_str){from, (size_t)(to - from)};
}

static bool text_cut(const char *text, struct hostile_sections *sections)
{
    const char *head = strstr(text, HEAD);
    while (head != NULL) {
        const char *name = head + sizeof(HEAD) - 1;
        const char *colon = strchr(name, ':');
        const char *line_end = strchr(name, '\n');
        if (colon == NULL || line_end == NULL || colon + 2 >= line_end ||
            sections->count == HOSTILE_SCRIPTS_MAX) {
            return false;
        }
        head = strstr(line_end, HEAD);
        const char *source_end = head != NULL ? head : line_end + strlen(line_end);
        sections->scripts[sections->count++] =
            (struct hostile_script){.name = piece(name, colon),
                                    .end = piece(colon + 2, line_end),
                                    .source = piece(line_end + 1, source_end)};
    }
    return true;
}

static int is_script(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size > 3 && strcmp(entry->d_name + size - 3, ".py") == 0;
}

bool hostile_sections_read(const char *folder, struct hostile_sections *sections)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_script, alphasort);
    bool good = count > 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        good = good && file_read(path, sections) &&
               text_cut(sections->texts[sections->text_count - 1], sections);
        free(entries[i]);
    }
    free(entries);
    return good;
}

void hostile_sections_done(struct hostile_sections *sections)
{
    for (size_t i = 0; i < sections->text_count; i++) {
        free(sections->texts[i]);
    }
    *sections = (struct hostile_sections){.count = 0};
}

bool hostile_script_is_endless(const struct hostile_script *script)
{
    return base_str_equal(script->end, BASE_STR("budget"));
}

static bool begins(struct base_str text, struct base_str with)
{
    return text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}

bool hostile_script_ended(const struct hostile_script *script, enum wire_outcome_kind outcome,
                          struct base_str detail)
{
    if (hostile_script_is_endless(script)) {
        return outcome == WIRE_OUTCOME_FAIL_TIMEOUT;
    }
    if (base_str_equal(script->end, BASE_STR("memory"))) {
        return outcome == WIRE_OUTCOME_FAIL_MEMORY && begins(detail, BASE_STR("MemoryError: "));
    }
    if (base_str_equal(script->end, BASE_STR("stack"))) {
        return outcome == WIRE_OUTCOME_FAIL_EXCEPTION &&
               begins(detail, BASE_STR("RuntimeError: maximum recursion depth exceeded"));
    }
    return outcome == WIRE_OUTCOME_FAIL_EXCEPTION && begins(detail, script->end) &&
           detail.size > script->end.size && detail.data[script->end.size] == ':';
}
