"""The checks of ``pratique prove``: can mutators run again, and in any order, without further changes?"""
