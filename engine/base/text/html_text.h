// Text inside a page: what a page would read as markup is escaped.
#ifndef BASE_HTML_TEXT_H
#define BASE_HTML_TEXT_H

#include <stdio.h>

// `text` with &, <, > and both quotes escaped, control characters as spaces: good between tags and
// in a quoted attribute.
void base_html_text(FILE *file, const char *text);

#endif
