// Escapes for pages. Called by whatever writes a report or a page, on the thread that writes; it
// keeps nothing. Names of files, tasks and devices go through it: somebody else chose them, and may
// have chosen markup.
#include "base/text/html_text.h"

#include "base/check.h"

void base_html_text(FILE *file, const char *text)
{
    base_assert(text != NULL);
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
        }
    }
}
