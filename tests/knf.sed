# For tests/style.bats, over a whole file at once (sed -z): turns KNF into what
# clang-format writes with endless lines.  What it then still changes is wrong.

# Tabs that align names and comments.
:tab
s/\([^ \t\n]\)[ \t]*\t[ \t]*\([^ \t\n]\)/\1 \2/g
t tab

# Lines continued with four spaces, strings in pieces, long macros.
s/"\n\t*    "//g
s/\*)\n\t*    (/*)(/g
s/\([^\n]\)\n\t*    \([^ \n]\)/\1 \2/g
s/( /(/g
s/ *\\\n[ \t]*/ /g

# An attribute stands with the type, in front of the name.
s/\(__attribute__(([^\n;]*))\)\n\([a-z]\)/\1 \2/g
