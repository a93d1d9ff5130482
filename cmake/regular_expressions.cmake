# RE2, for RegexFullMatch and com.microsoft's Tokenizer; optional, a model that needs it gets an error that names it. Sets
# RE2_FOUND and the target regular_expressions.
option(TRANSMUTER_RE2 "Regular expressions by RE2 where it is found" ON)
add_library(regular_expressions INTERFACE)
set(RE2_FOUND FALSE)
if(TRANSMUTER_RE2)
  link_where_found(RE2 regular_expressions re2/re2.h re2)
endif()
message(STATUS "Regular expressions (RE2): ${RE2_FOUND}")
