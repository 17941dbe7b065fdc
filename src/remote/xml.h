/* xml.h - the XML of object stores: elements in elements, read in place; attributes, comments and
 * declarations are passed over. Names lose their prefix ("s3:Code" is "Code"). */
#ifndef REMOTE_XML_H
#define REMOTE_XML_H
#include "base/text.h"

struct xml {
    struct str name;
    struct str inner; /* between its tags */
    struct str whole; /* with them */
};

/* The next element of this level; *rest goes on behind it. False: no whole one is left. */
bool xml_next(struct str *rest, struct xml *out);
/* The first child of that name, its inner text; data NULL: none. */
struct str xml_child(struct str inner, struct str name);
struct str xml_text(struct arena *perm, struct str inner); /* &amp; and its like decoded */
void       xml_escape(struct textbuf *b, struct str text);

#endif
