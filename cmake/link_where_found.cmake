# For libraries that no module of CMake's knows.
# link_where_found(PREFIX TARGET HEADER LIBRARY [SUFFIX...]): where HEADER (also under the SUFFIXes) and LIBRARY are found,
# TARGET, an interface, is told so; the one installed links LIBRARY by its name. Sets PREFIX_FOUND.
function(link_where_found prefix target header library)
  find_path(${prefix}_INCLUDE_DIR ${header} PATH_SUFFIXES ${ARGN})
  find_library(${prefix}_LIBRARY ${library})
  set(found FALSE)
  if(${prefix}_INCLUDE_DIR AND ${prefix}_LIBRARY)
    set(found TRUE)
    target_include_directories(${target} SYSTEM INTERFACE $<BUILD_INTERFACE:${${prefix}_INCLUDE_DIR}>)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:${${prefix}_LIBRARY}> $<INSTALL_INTERFACE:${library}>)
  endif()
  set(${prefix}_FOUND ${found} PARENT_SCOPE)
endfunction()
