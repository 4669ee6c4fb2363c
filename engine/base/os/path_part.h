// Names from outside on their way to becoming file names: the one check of them all.
//
// Whoever makes a path out of bytes it did not choose (a git tree, a manifest, an answer of a
// server) asks here first. A name that passes is one entry of the folder it is joined to: it leads
// nowhere else and shows no surprises in a listing.
#ifndef BASE_PATH_PART_H
#define BASE_PATH_PART_H

#include "base/str.h"

#define BASE_PATH_PART_MAX 255u // bytes of one name, as file systems have it

// Why `name` cannot be one part of a path, as "is '..'"; NULL: it can. Refused are: nothing, ".",
// "..", ".git" in any case, more than BASE_PATH_PART_MAX bytes, and names with "/", NUL or control
// characters (C0, DEL, and C1 in UTF-8). The text is static.
const char *base_path_part_fault(struct base_str name);
// The same for a relative path: each of its parts, between slashes. An absolute path and a doubled
// or last slash have an empty part.
const char *base_path_fault(struct base_str path);

#endif
