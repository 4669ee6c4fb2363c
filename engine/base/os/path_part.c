// The check of names from outside that become file names.
//
// Called wherever such a path is put together, from any thread; there is no state. The names are
// bytes: nothing here asks for UTF-8, since file systems do not either.
#include "base/os/path_part.h"

#define DELETE     0x7fu
#define C1_LEAD    0xc2u // of U+0080 to U+009F, the second byte being 0x80 to 0x9f
#define C1_LAST    0x9fu
#define LOWER_CASE 0x20u

static const char *byte_fault(struct base_str name)
{
    unsigned before = 0;
    for (size_t i = 0; i < name.size; i++) {
        unsigned byte = (unsigned char)name.data[i];
        if (byte == '/') {
            return "holds a '/'";
        }
        if (byte < ' ' || byte == DELETE || (before == C1_LEAD && byte <= C1_LAST)) {
            return "holds a control character";
        }
        before = byte;
    }
    return NULL;
}

// A repository's own folder: what is put there is run by git.
static bool is_git_folder(struct base_str name)
{
    static const char wanted[] = ".git";
    if (name.size != sizeof wanted - 1) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char small = (char)(i == 0 ? name.data[i] : (name.data[i] | (char)LOWER_CASE));
        if (small != wanted[i]) {
            return false;
        }
    }
    return true;
}

const char *base_path_part_fault(struct base_str name)
{
    if (name.size == 0) {
        return "is empty";
    }
    if (name.size > BASE_PATH_PART_MAX) {
        return "is longer than 255 bytes";
    }
    if (base_str_equal(name, BASE_STR("."))) {
        return "is '.'";
    }
    if (base_str_equal(name, BASE_STR(".."))) {
        return "is '..'";
    }
    return is_git_folder(name) ? "is '.git'" : byte_fault(name);
}
_Static_assert(BASE_PATH_PART_MAX == 255, "the text above says so");

const char *base_path_fault(struct base_str path)
{
    size_t start = 0;
    for (size_t i = 0; i <= path.size; i++) {
        if (i < path.size && path.data[i] != '/') {
            continue;
        }
        const char *fault = base_path_part_fault((struct base_str){path.data + start, i - start});
        if (fault != NULL) {
            return fault;
        }
        start = i + 1;
    }
    return NULL;
}
