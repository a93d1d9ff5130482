# transmuter_text: the Rust archive with the tokenizers, an imported static library.
#
# All presets share one cargo target folder (the archive is the same for each). Cargo runs only when one of its sources is
# newer than the archive; cargo leaves an unchanged archive's time alone, hence the touch.
find_program(CARGO cargo HINTS $ENV{HOME}/.cargo/bin)
if(NOT CARGO)
  message(FATAL_ERROR "cargo not found: run scripts/bootstrap.sh, or configure with -DTRANSMUTER_TEXT=OFF")
endif()

set(rust_text_dir ${PROJECT_SOURCE_DIR}/rust/text)
set(rust_text_build ${PROJECT_BINARY_DIR}/cargo)
set(rust_text_target ${rust_text_build})
if(PROJECT_IS_TOP_LEVEL)
  # Worktrees of one clone share the compiled crates too: those of its first checkout.
  set(rust_text_build ${PROJECT_SOURCE_DIR}/build/cargo)
  set(rust_text_target ${rust_text_build})
  find_package(Git QUIET)
  if(GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --path-format=absolute --git-common-dir
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE git_dir OUTPUT_STRIP_TRAILING_WHITESPACE
                    ERROR_QUIET)
    if(git_dir MATCHES "^(/.+)/\\.git$")
      set(rust_text_target ${CMAKE_MATCH_1}/build/cargo)
    endif()
  endif()
endif()
set(rust_text_archive ${rust_text_build}/libtransmuter_text.a)

file(GLOB rust_text_sources CONFIGURE_DEPENDS ${rust_text_dir}/src/*.rs)
add_custom_command(
  OUTPUT ${rust_text_archive}
  COMMAND ${CARGO} build --quiet --release --locked --target-dir ${rust_text_target}
  COMMAND ${CMAKE_COMMAND} -E copy ${rust_text_target}/release/libtransmuter_text.a ${rust_text_archive}
  COMMAND ${CMAKE_COMMAND} -E touch ${rust_text_archive}
  WORKING_DIRECTORY ${rust_text_dir}
  DEPENDS ${rust_text_sources} ${rust_text_dir}/Cargo.toml ${rust_text_dir}/Cargo.lock
  COMMENT "Building the tokenizers (Rust)"
  VERBATIM)
add_custom_target(transmuter_text_archive DEPENDS ${rust_text_archive})

# The name that installed packages use too (cmake/TransmuterConfig.cmake.in).
add_library(Transmuter::text_archive STATIC IMPORTED GLOBAL)
add_dependencies(Transmuter::text_archive transmuter_text_archive)
set_target_properties(Transmuter::text_archive PROPERTIES
  IMPORTED_LOCATION ${rust_text_archive}
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
