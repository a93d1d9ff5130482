# find_package(Transmuter) for other projects: the library, its public headers, the tokenizers' archive; cli/ adds
# the program.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS transmuter image_libraries audio_libraries regular_expressions EXPORT TransmuterTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/transmuter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TRANSMUTER_TEXT)
  install(FILES ${rust_text_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Transmuter)
install(EXPORT TransmuterTargets NAMESPACE Transmuter:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/TransmuterConfig.cmake.in
  ${PROJECT_BINARY_DIR}/TransmuterConfig.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TransmuterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TransmuterConfig.cmake ${PROJECT_BINARY_DIR}/TransmuterConfigVersion.cmake
  DESTINATION ${package_dir})
